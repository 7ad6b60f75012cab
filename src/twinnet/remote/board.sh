# Keeps a board in order for twinnet: files by content, a folder per run, and the lease. Plain sh, as busybox has it.
# Called as: sh board.sh HOME LOCK VERB ARGUMENT...; all arguments are words that twinnet made.
set -u
umask 077
home=$1 lock=$2 verb=$3
shift 3

fail() {
    echo "$2" >&2
    exit "$1"
}

# The number of the newest lease. Numbers only grow, so that exactly one process can make the next one.
newest() {
    highest=0
    for one in "$lock"/lease.*; do
        number=${one##*.}
        case $number in '' | *[!0-9]*) continue ;; esac
        if [ "$number" -gt "$highest" ]; then highest=$number; fi
    done
    echo "$highest"
}

# Reads lease $1: `left` seconds (0: it is over), `who` holds it. A lease of more than a day comes from another clock.
look() {
    left=0 who=
    [ "$1" -gt 0 ] || return 0
    read -r until who <"$lock/lease.$1" || return 0
    case $until in '' | *[!0-9]* | ??????????????*) return 0 ;; esac
    left=$((until - $(date +%s)))
    if [ "$left" -lt 0 ] || [ "$left" -gt 86400 ]; then left=0; fi
}

# Writes lease $1 of owner $2, over in $3 seconds, in the way $4: `ln` only if there is none, `mv` over the old one.
write() {
    t="$lock/.new-$2"
    rm -f "$t"
    echo "$(($3 ? $(date +%s) + $3 : 0)) $2" >"$t" && chmod 644 "$t" || fail 73 "cannot write to $lock"
    if [ "$4" = mv ]; then
        mv -f "$t" "$lock/lease.$1"
    else
        ln "$t" "$lock/lease.$1" 2>/dev/null
        linked=$?
        rm -f "$t"
        return $linked
    fi
}

lost() {
    look "$(newest)"
    echo "lost $left $who"
    exit 0
}

# Kills what a run started. After a reboot its numbers may be those of others: what it started works in its folder.
stop() {
    for mark in "$1"/.pid-$2; do
        [ -f "$mark" ] || continue
        read -r pid group <"$mark" || continue
        case $(readlink "/proc/$pid/cwd" 2>/dev/null || { [ -d /proc/self ] || echo "$1"; }) in
        "$1"*) kill -9 "-$group" 2>/dev/null ;;
        esac
        rm -f "$mark"
    done
}

# Start to work on something that can be stopped.
enter() {
    run="$home/runs/$1" group=$$
    [ -d "$run" ] && mkdir -p "$run/$3" && cd "$run/$3" || fail 70 "the folder of the run is gone"
    if read -r _ _ _ _ g _ <"/proc/$$/stat"; then group=$g; fi 2>/dev/null
    echo "$$ $group" >"$run/.pid-$2"
}

# Say how it ended, where a lost connection says nothing.
left() {
    rm -f "$run/.pid-$2" "$run/.start-$2.sh"
    printf '\ntwinnet-ended %d\n' "$1" >&2
}

case $verb in
take) # OWNER SECONDS
    mkdir -p "$lock" && [ -d "$lock" ] && [ ! -h "$lock" ] || fail 73 "cannot make the folder $lock"
    chmod 1777 "$lock" 2>/dev/null
    now=$(newest)
    look "$now"
    if [ "$left" -gt 0 ]; then
        if [ "$who" = "$1" ]; then echo "taken $now"; else echo "held $left $who"; fi
        exit 0
    fi
    before=$who next=$((now + 1))
    if ! write "$next" "$1" "$2" ln; then
        [ -e "$lock/lease.$next" ] || fail 73 "cannot make a link in $lock"
        look "$next"
        echo "held $left $who"
        exit 0
    fi
    look "$now"
    if [ "$left" -gt 0 ]; then # its owner renewed it in the meantime
        rm -f "$lock/lease.$next"
        echo "held $left $who"
        exit 0
    fi
    for p in "$lock"/lease.*; do
        if [ "$p" != "$lock/lease.$next" ]; then rm -f "$p" 2>/dev/null; fi
    done
    echo "taken $next $before"
    ;;
renew) # NUMBER OWNER SECONDS
    [ "$(newest)" = "$1" ] || lost
    look "$1"
    if [ "$who" != "$2" ] || [ "$left" -le 0 ]; then lost; fi
    write "$1" "$2" "$3" mv
    [ "$(newest)" = "$1" ] || lost
    echo kept
    ;;
begin) # RUN: only who holds the lease calls this, so that all other runs are over
    for p in "$home"/runs/*; do
        [ -d "$p" ] || continue
        stop "$p" '*'
        rm -rf "$p"
    done
    rm -rf "$home"/store/.new-*
    for p in "$home"/serve-*; do
        n=${p##*-}
        kill -0 "${n%%.*}" 2>/dev/null || rm -f "$p"
    done
    mkdir -p "$home/runs/$1" || fail 71 "cannot make a folder in $home/runs"
    ;;
end) # RUN NUMBER OWNER BYTES
    stop "$home/runs/$1" '*'
    rm -rf "$home/runs/$1"
    sum=0
    ls -tln "$home/store" | while read -r _ _ _ _ size rest; do
        case ${size:-x} in *[!0-9]*) continue ;; esac
        sum=$((sum + size))
        if [ "$sum" -gt "$4" ]; then rm -f "$home/store/${rest##* }"; fi
    done
    look "$2"
    if [ "$(newest)" = "$2" ] && [ "$who" = "$3" ]; then write "$2" "$3" 0 mv; fi
    ;;
have) # NAME:BYTES...: says which are not in the store
    for item; do
        p="$home/store/${item%%:*}"
        if [ -f "$p" ] && [ "$(($(wc -c <"$p")))" = "${item##*:}" ]; then touch "$p"; else echo "${item%%:*}"; fi
    done
    ;;
put) # KEY: a tar of files, each called by its sha256, and a suffix
    t="$home/store/.new-$1"
    rm -rf "$t"
    mkdir -p "$t" && tar -xf - -C "$t" || fail 71 "cannot write to $home/store"
    for p in "$t"/*; do
        n=${p##*/}
        if command -v sha256sum >/dev/null; then
            s=$(sha256sum <"$p")
            [ "${s%% *}" = "${n%%.*}" ] || fail 72 "a copy of $n arrived damaged"
        fi
        chmod 444 "$p" && mv -f "$p" "$home/store/$n" || fail 71 "cannot write to $home/store"
    done
    rm -rf "$t"
    ;;
place) # RUN: lines "NAME PATH", copies from the store into the run's folder; for a folder the name is -
    cd "$home/runs/$1" || fail 70 "the folder of the run is gone"
    while read -r name path; do
        if [ "$name" = - ]; then
            mkdir -p "./$path" || fail 71 "cannot write to $home/runs"
            continue
        fi
        cp "$home/store/$name" "./$path" && chmod 600 "./$path" || fail 71 "cannot write to $home/runs"
    done
    ;;
fetch) # RUN PATH KILOBYTES: a tar of a file or folder; nothing if it is not there, exit code 75 if it is larger
    cd "$home/runs/$1" || fail 70 "the folder of the run is gone"
    if [ "$3" -gt 0 ] && [ -e "./$2" ]; then
        size=$(du -sk "./$2")
        if [ "${size%%[!0-9]*}" -gt "$3" ]; then exit 75; fi
    fi
    if [ -e "./$2" ]; then tar -cf - "./$2" || fail 71 "cannot read $2"; fi
    ;;
clear) # RUN PATH
    rm -rf "$home/runs/$1/$2"
    ;;
start) # RUN KEY FOLDER: the script that is read, in a folder of the run
    enter "$@"
    cat >"$run/.start-$2.sh"
    sh "$run/.start-$2.sh" </dev/null
    left "$?" "$2"
    ;;
work) # RUN KEY FOLDER PYTHON NAME: a script of the store, which reads requests
    enter "$@"
    "$4" "$home/store/$5"
    left "$?" "$2"
    ;;
stop) # RUN KEY
    stop "$home/runs/$1" "$2"
    ;;
serve) # lines "BYTES VERB ARGUMENT...", each followed by what the verb reads; answers "CODE BYTES BYTES", both outputs
    set -f
    f="$home/serve-$$"
    trap 'rm -f "$f.in" "$f.out" "$f.err"' EXIT
    while read -r n words; do
        if [ "$n" -gt 0 ]; then head -c "$n"; fi >"$f.in"
        sh "$0" "$home" "$lock" $words <"$f.in" >"$f.out" 2>"$f.err"
        code=$?
        echo "$code $(($(wc -c <"$f.out"))) $(($(wc -c <"$f.err")))"
        cat "$f.out" "$f.err"
    done
    ;;
*)
    fail 70 "what is $verb?"
    ;;
esac
