// What bars people with a keyboard, a screen reader or tired eyes from a page: headings, labels, words for pictures, stops
// inside charts (a table has the same links), and text with less contrast than WCAG AA asks for.
const wrong = [];
const lum = c => { const [r, g, b] = c.map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
const rgba = text => { const n = text.match(/[\d.]+/g).map(Number); return [n.slice(0, 3), n.length > 3 ? n[3] : 1]; };
const behind = node => { for (; node; node = node.parentElement) { const [c, a] = rgba(getComputedStyle(node).backgroundColor); if (a > .5) return c; } return [255, 255, 255]; };
const heads = document.querySelectorAll('h1').length;
if (heads !== 1) wrong.push(heads + ' h1');
for (const field of document.querySelectorAll('input:not([type=hidden]), select'))
  if (!field.getAttribute('aria-label') && !(field.labels && field.labels.length)) wrong.push('no label: ' + field.name);
for (const head of document.querySelectorAll('thead th')) if (!head.textContent.trim()) wrong.push('an empty head of a table');
for (const picture of document.querySelectorAll('svg[role=img]')) if ((picture.getAttribute('aria-label') || '').length < 8) wrong.push('a chart without words');
for (const picture of document.querySelectorAll('img')) if (!picture.alt) wrong.push('a picture without words');
for (const link of document.querySelectorAll('svg a')) if (link.tabIndex >= 0) { wrong.push('stops inside a chart'); break; }
for (const node of document.querySelectorAll('body *')) {
  const own = Array.from(node.childNodes).some(child => child.nodeType === 3 && child.textContent.trim());
  const box = node.getBoundingClientRect();
  if (!own || !box.width || node.closest('svg, .skip, .panels') || getComputedStyle(node).visibility === 'hidden') continue;
  const style = getComputedStyle(node), a = lum(rgba(style.color)[0]), b = lum(behind(node));
  const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (contrast < 4.5) wrong.push(contrast.toFixed(2) + ' ' + node.className + ' ' + node.textContent.trim().slice(0, 30));
}
return [...new Set(wrong)].slice(0, 20);
