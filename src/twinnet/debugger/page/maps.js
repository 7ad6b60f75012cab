"use strict";
// Heat maps: numbers in, pixels out. Colours and ranges come with the numbers, so that page and report agree.

const maps = (() => {
  const SIDES = ["network", "twin", "difference"];

  function floats(text) {
    const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
  }

  function palette(anchors) {
    const table = new Uint8Array(256 * 3);
    for (let i = 0; i < 256; i++) {
      const at = i / 255 * (anchors.length - 1), k = Math.min(Math.floor(at), anchors.length - 2), f = at - k;
      for (let c = 0; c < 3; c++) table[3 * i + c] = Math.round(anchors[k][c] * (1 - f) + anchors[k + 1][c] * f);
    }
    return table;
  }

  // 0..1 on the shared scale of both sides; a constant tensor is in the middle.
  function valueShare(data) {
    const span = data.high - data.low;
    return v => Number.isFinite(v) ? (span > 0 ? (v - data.low) / span : 0.5) : NaN;
  }

  // 0..1 with equality at 0.5, logarithmic, so that one large element hides nothing.
  function differenceShare(data) {
    const { largest, colours: { decades } } = data;
    return v => {
      if (Number.isNaN(v)) return NaN;
      if (!largest || v === 0) return 0.5;
      const size = 1 + Math.log10(Math.abs(v) / largest) / decades;
      return 0.5 + 0.5 * Math.sign(v) * Math.min(1, Math.max(0, size));
    };
  }

  function raster(values, data, side) {
    const { rows, columns, colours } = data;
    const share = side === "difference" ? differenceShare(data) : valueShare(data);
    const table = palette(side === "difference" ? colours.difference : colours.values);
    const image = new ImageData(columns, rows);
    for (let i = 0; i < values.length; i++) {
      const s = share(values[i]);
      for (let c = 0; c < 3; c++) {
        image.data[4 * i + c] = Number.isNaN(s) ? colours.odd[c] : table[3 * Math.round(255 * Math.min(1, Math.max(0, s))) + c];
      }
      image.data[4 * i + 3] = 255;
    }
    const canvas = document.createElement("canvas");
    canvas.width = columns;
    canvas.height = rows;
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  // What the server sent, with its numbers unpacked and painted once.
  function unpack(data) {
    const values = {}, rasters = {};
    for (const side of SIDES) {
      values[side] = floats(data[side]);
      rasters[side] = raster(values[side], data, side);
    }
    return { ...data, values, rasters };
  }

  // Draw the part `view` (in elements of the plane) of one side; pixels stay square-edged.
  function draw(canvas, loaded, side, view, mark) {
    const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    const shape = view.rows / view.columns;
    const height = Math.round(Math.min(Math.max(width * shape, 24), Math.max(width * 1.2, 120)));
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d");
    pen.imageSmoothingEnabled = false;
    const perRow = loaded.rows / (loaded.bottom - loaded.top), perColumn = loaded.columns / (loaded.right - loaded.left);
    pen.drawImage(
      loaded.rasters[side],
      (view.left - loaded.left) * perColumn, (view.top - loaded.top) * perRow, view.columns * perColumn, view.rows * perRow,
      0, 0, canvas.width, canvas.height,
    );
    if (mark) {
      const w = canvas.width / view.columns, h = canvas.height / view.rows;
      pen.lineWidth = Math.max(1.5, ratio * 1.5);
      for (const [colour, grow] of [["#000", 1], ["#fff", 0]]) {
        pen.strokeStyle = colour;
        pen.strokeRect((mark.x - view.left) * w - grow, (mark.y - view.top) * h - grow, Math.max(w, 3) + 2 * grow, Math.max(h, 3) + 2 * grow);
      }
    }
  }

  function scale(canvas, anchors) {
    const table = palette(anchors), pen = canvas.getContext("2d"), image = new ImageData(256, 1);
    for (let i = 0; i < 256; i++) {
      image.data.set([table[3 * i], table[3 * i + 1], table[3 * i + 2], 255], 4 * i);
    }
    pen.putImageData(image, 0, 0);
  }

  // The values of an element, or of the block that stands for it where the plane was too large to be sent whole.
  function values(loaded, y, x) {
    const row = Math.floor((y - loaded.top) * loaded.rows / (loaded.bottom - loaded.top));
    const column = Math.floor((x - loaded.left) * loaded.columns / (loaded.right - loaded.left));
    if (row < 0 || column < 0 || row >= loaded.rows || column >= loaded.columns) return null;
    const at = row * loaded.columns + column;
    return Object.fromEntries(SIDES.map(side => [side, loaded.values[side][at]]));
  }

  const reduced = loaded => loaded.rows < loaded.bottom - loaded.top || loaded.columns < loaded.right - loaded.left;

  return { SIDES, unpack, draw, scale, values, reduced };
})();
