// What scripts add to the pages: updates while somebody looks, dialogs, keys, zoom, own views. No page needs them.
const $ = (s, in_ = document) => in_.querySelector(s);
const $$ = (s, in_ = document) => [...in_.querySelectorAll(s)];
const main = $("#main");
const prefix = document.body.dataset.prefix;
const say = (text) => { $("#said").textContent = text; };

// patch makes an old element like a new one and keeps the nodes, so that focus, selection and what was opened stay.
function patch(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || (old.id || "") !== (fresh.id || "")) { old.replaceWith(fresh); return; }
  if (old.nodeType === Node.TEXT_NODE) { if (old.data !== fresh.data) old.data = fresh.data; return; }
  if (old.nodeType !== Node.ELEMENT_NODE || "keep" in old.dataset) return; // scripts have filled it
  if (old.dataset.owner && ["owner", "field", old.dataset.src ? "src" : "sealed"].every((k) => old.dataset[k] === fresh.dataset?.[k])) return; // it may be open, or have a button
  for (const a of [...old.attributes]) if (!fresh.hasAttribute(a.name) && !(a.name === "open" && old.nodeName === "DETAILS") && a.name !== "class") old.removeAttribute(a.name);
  for (const a of fresh.attributes) {
    if (a.name === "open" && old.nodeName === "DETAILS" || a.name === "value" && old.nodeName === "INPUT") continue;
    if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
  }
  if (old.classList.contains("at") && !fresh.classList.contains("at")) old.classList.add("at");
  children(old, fresh);
}
function children(old, fresh) {
  const byId = new Map();
  for (const c of old.children) if (c.id) byId.set(c.id, c);
  let at = old.firstChild;
  for (const f of [...fresh.childNodes]) {
    const known = f.id && byId.get(f.id);
    if (known) {
      if (known !== at) old.insertBefore(known, at); else at = at.nextSibling;
      patch(known, f);
    } else if (at && !(at.id && at.nodeType === 1) && !f.id && at.nodeName === f.nodeName) {
      const next = at.nextSibling; patch(at, f); at = next;
    } else old.insertBefore(f, at);
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

// Rows of a list that are new wait until they are asked for; those that are there are patched.
let waiting = null;
function show(html) {
  const fresh = document.createElement("main");
  fresh.innerHTML = html;
  const rows = $("table[data-rows=''] tbody", main), then = $("table[data-rows=''] tbody", fresh);
  const sel = new Set($$("input[name=run]:checked", main).map((b) => b.value));
  if (rows && then) {
    const known = new Set($$("tr", rows).map((r) => r.id));
    const came = $$("tr", then).filter((r) => !known.has(r.id));
    waiting = came.length ? html : null;
    for (const r of came) r.remove();
    const left = new Set($$("tr", then).map((r) => r.id)), last = then.lastElementChild?.id;
    for (const r of $$("tr", rows)) if (!left.has(r.id)) { if (last && r.id > last) r.classList.add("gone"); then.append(r.cloneNode(true)); }
    const b = $("#new", fresh);
    if (b && came.length) { b.hidden = false; b.textContent = came.length + " new"; }
    if (came.length && $("#new", main)?.hidden) say(came.length + " new runs");
  }
  children(main, fresh);
  for (const b of $$("input[name=run]", main)) b.checked = sel.has(b.value);
  ready();
}
function showAll(html) {
  const fresh = document.createElement("main");
  fresh.innerHTML = html; waiting = null; children(main, fresh); ready();
}

// One source of updates for each tab, while somebody looks at it.
let source = null;
function listen() {
  source?.close(); source = null;
  if (document.hidden || !main.dataset.live) return;
  source = new EventSource(main.dataset.live);
  source.addEventListener("page", (e) => { if (!document.querySelector("dialog[open]")) show(e.data); });
}
document.addEventListener("visibilitychange", listen);

// go shows another state of the same page without leaving it.
let going = 0;
async function go(url, push = true) {
  const mine = ++going;
  let text;
  try { const r = await fetch(url, { headers: { Accept: "text/html" } }); text = await r.text(); } catch { location.href = url; return; }
  if (mine !== going) return;
  const doc = new DOMParser().parseFromString(text, "text/html"), m = $("#main", doc);
  if (!m) { location.href = url; return; }
  if (push) history.pushState({}, "", url); else history.replaceState({}, "", url);
  if (m.dataset.live) main.dataset.live = m.dataset.live; else delete main.dataset.live;
  document.title = doc.title;
  children(main, m); ready(); listen();
}
addEventListener("popstate", () => go(location.href, false));

// Dialogs: the form of an action, over the page.
async function dialog(url) {
  const r = await fetch(url);
  const doc = new DOMParser().parseFromString(await r.text(), "text/html");
  const form = $("#main .dialog, #main .narrow", doc);
  if (!form) { location.href = url; return; }
  const d = document.createElement("dialog");
  d.append(form);
  const h = $("h1", d); if (h) { h.id = "dialog-title"; d.setAttribute("aria-labelledby", "dialog-title"); }
  document.body.append(d);
  d.addEventListener("close", () => { d.remove(); });
  $("[data-close]", d)?.addEventListener("click", (e) => { e.preventDefault(); d.close(); });
  commands(d); openSealed();
  $("form", d)?.addEventListener("submit", () => { for (const b of $$("button", d)) setTimeout(() => { b.disabled = true; }); });
  d.showModal();
  ($("input:not([type=hidden]), textarea, select", d) || $("button.primary, button.danger", d))?.focus();
}
// commands keeps the command that a form shows like what is typed into the form.
const shell = (s) => /^[\w./:=,@%+-]+$/.test(s) ? s : "'" + s.replaceAll("'", "'\\''") + "'";
function commands(in_) {
  for (const cmd of $$("[data-command]", in_)) {
    const form = cmd.closest("form"), plain = cmd.textContent;
    if (form.dataset.said) continue;
    form.dataset.said = "1";
    const tell = () => {
      cmd.textContent = plain + $$("[data-flag]", form).map((f) => {
        const flag = f.dataset.flag, v = f.value.trim();
        if (f.type === "checkbox") return f.checked ? " --" + flag : "";
        return v ? (flag === "-" ? " " : " --" + flag + " ") + shell(v) : "";
      }).join("");
    };
    form.addEventListener("input", tell); tell();
  }
}

document.addEventListener("click", (e) => {
  if (e.metaKey || e.ctrlKey || e.shiftKey || e.button) return;
  const a = e.target.closest("a");
  if (a?.matches("[data-dialog]")) { e.preventDefault(); a.closest("details")?.removeAttribute("open"); dialog(a.href); return; }
  if (a && main.contains(a) && a.closest("[data-timeline], [data-graph]")) {
    const to = new URL(a.getAttribute("href"), location.href); // which an SVG has, too
    if (to.pathname === location.pathname) { e.preventDefault(); go(to.href).then(() => { if (a.closest("[data-graph]")) $("#op")?.scrollIntoView({ block: "nearest" }); }); return; }
  }
  if (e.target.closest("#new") && waiting) { showAll(waiting); return; }
  if (e.target.closest("[data-help]")) { help(); return; }
  const copy = e.target.closest("[data-copy]");
  if (copy) { navigator.clipboard.writeText($("pre", copy.parentElement).textContent).then(() => say("Copied"), () => say("The browser lets nothing be copied")); return; }
  for (const m of $$("details.menu[open]")) if (!m.contains(e.target)) m.removeAttribute("open");
});
document.addEventListener("submit", (e) => {
  const f = e.target;
  if (f.id !== "chosen") return;
  e.preventDefault();
  const runs = $$("input[name=run]:checked", f);
  if (!runs.length) { say("Choose runs first: with their boxes, or with x"); many(); return; }
  dialog((e.submitter?.formAction || f.action) + "?" + new URLSearchParams(runs.map((b) => ["run", b.value])));
});
document.addEventListener("change", (e) => { if (e.target.name === "run") many(); });
function many() {
  const n = $$("input[name=run]:checked").length, m = $("#many");
  if (m) m.textContent = n ? n + " chosen" : "Choose runs to act on several at once";
}

// Time: what is said of it goes on.
const rough = (s) => s < 60 ? Math.floor(s) + " s" : s < 3600 ? Math.floor(s / 60) + " min" : s < 172800 ? Math.floor(s / 3600) + " h" : Math.floor(s / 86400) + " d";
function took(s) {
  if (s < 10) return s.toFixed(1) + " s";
  if (s < 60) return Math.floor(s) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min" + (Math.floor(s % 60) ? " " + Math.floor(s % 60) + " s" : "");
  return rough(s);
}
function tick() {
  if (document.hidden) return;
  for (const t of $$("time[data-ago], time[data-took]")) {
    const s = (Date.now() - Date.parse(t.dateTime)) / 1000;
    const text = "took" in t.dataset ? took(Math.max(s, 0)) : s < -1 ? "in " + rough(-s) : s < 1 ? "now" : rough(s) + " ago";
    if (t.textContent !== text) t.textContent = text;
  }
}
setInterval(tick, 1000);

// Own views: names for filters, kept in this browser.
const own = () => { try { return JSON.parse(localStorage.getItem("flowgen.views") || "[]"); } catch { return []; } };
const keep = (v) => { try { localStorage.setItem("flowgen.views", JSON.stringify(v)); } catch { say("This browser keeps nothing"); } };
function views() {
  const at = $("#own");
  if (!at || at.childNodes.length) return;
  const line = $("#q")?.value || "";
  for (const v of own()) {
    const a = document.createElement("a");
    a.href = prefix + "runs?q=" + encodeURIComponent(v.line); a.textContent = v.name;
    if (v.line === line) a.setAttribute("aria-current", "true");
    at.append(a);
  }
  if (!line) return;
  const known = own().find((v) => v.line === line), b = document.createElement("button");
  b.type = "button"; b.className = "quiet"; b.textContent = known ? "Forget this view" : "+ Save view";
  b.addEventListener("click", () => {
    if (known) keep(own().filter((v) => v.line !== line));
    else { naming(line); return; }
    at.replaceChildren(); views();
  });
  at.append(b);
}

// box opens a dialog with a title.
function box(title) {
  const d = document.createElement("dialog"), f = document.createElement("form"), h = document.createElement("h1");
  f.className = "dialog"; f.method = "dialog"; h.textContent = title; f.append(h); d.append(f);
  d.setAttribute("aria-label", title);
  d.addEventListener("close", () => d.remove());
  document.body.append(d);
  return [d, f];
}
function button(text, type, cls) {
  const b = document.createElement("button");
  b.textContent = text; b.type = type; b.className = cls;
  return b;
}
// naming asks for the name of an own view.
function naming(line) {
  const [d, f] = box("Save this view"), p = document.createElement("p"), l = document.createElement("label"), i = document.createElement("input"), acts = document.createElement("p");
  const back = button("Back", "button", "");
  p.className = "field"; l.textContent = "Name, in this browser"; l.htmlFor = i.id = "view"; i.value = line.slice(0, 40); i.required = true; i.maxLength = 40; i.autocomplete = "off";
  acts.className = "acts"; acts.append(back, button("Save", "submit", "primary"));
  back.addEventListener("click", () => d.close());
  p.append(l, i); f.append(p, acts);
  f.addEventListener("submit", () => { keep([...own().filter((v) => v.name !== i.value), { name: i.value, line }]); $("#own").replaceChildren(); views(); say("Saved"); });
  d.showModal(); i.select();
}

// Keys.
const typing = (e) => e.target.closest?.("input:not([type=checkbox]), textarea, select") || e.target.isContentEditable;
const rows = () => $$("tbody tr", main).filter((r) => r.dataset.href || $("a", r));
function move(by) {
  const all = rows(); if (!all.length) return;
  const i = all.findIndex((r) => r.classList.contains("at"));
  const to = all[Math.min(Math.max(i < 0 ? (by > 0 ? 0 : all.length - 1) : i + by, 0), all.length - 1)];
  for (const r of all) r.classList.remove("at");
  to.classList.add("at");
  $("a", to)?.focus({ preventScroll: true });
  to.scrollIntoView({ block: "nearest" });
}
let after = "";
const goes = { r: "runs", f: "failures", a: "alerts", q: "queues", w: "workers", d: "deploys", s: "schedules", b: "bulk", j: "journal", c: "checks", h: "inbox", n: "start" };
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "Escape" && typing(e)) { e.target.blur(); return; }
  if (typing(e) || $("dialog[open]")) return;
  if (after === "g") { after = ""; if (goes[e.key]) { e.preventDefault(); location.href = prefix + goes[e.key]; } return; }
  const at = $("tr.at", main), tl = $("[data-timeline]");
  const press = (s) => { const a = $(s, main); if (a) { e.preventDefault(); a.click(); } };
  switch (e.key) {
    case "j": move(1); break;
    case "k": move(-1); break;
    case "x": { const b = at && $("input[name=run]", at); if (b) { b.checked = !b.checked; many(); } break; }
    case "Enter": if (at?.dataset.href && document.activeElement?.tagName !== "BUTTON" && !document.activeElement?.closest("a")) location.href = at.dataset.href; break;
    case "/": if ($("#q")) { e.preventDefault(); $("#q").select(); } break;
    case "g": after = "g"; setTimeout(() => { after = ""; }, 1500); break;
    case "r": press("a[data-dialog][href*='/act/retry']"); if (at) { const b = $("input[name=run]", at); if (b) { b.checked = true; many(); $("[formaction$='/act/retry']")?.click(); } } break;
    case "[": press("a[rel=prev], a[rel=first]"); break;
    case "]": press("a[rel=next]"); break;
    case ".": { const m = $("details.menu > summary"); if (m) { m.click(); $("a", m.parentElement)?.focus(); } break; }
    case "?": help(); break;
    case "+": case "=": case "-": case "0": case "ArrowLeft": case "ArrowRight":
      if (tl) press("[data-key='" + (e.key === "=" ? "+" : e.key) + "']");
  }
});
function help() {
  const [d, f] = box("Keys"), dl = document.createElement("dl");
  const keys = [["j k", "next, previous row"], ["Enter", "open it"], ["x", "choose it"], ["r", "retry it"], ["/", "filter"], ["[ ]", "previous, next page"], [".", "actions"], ["+ - 0", "zoom the timeline"], ["← →", "earlier, later"], ["g", Object.entries(goes).map(([k, at]) => k + " " + at).join(", ")], ["?", "this"]];
  dl.className = "keys";
  for (const [k, t] of keys) { const dt = document.createElement("dt"), dd = document.createElement("dd"); dt.textContent = k; dd.textContent = t; dl.append(dt, dd); }
  f.append(dl, button("Close", "submit", "primary"));
  d.showModal();
}

// Zoom by wheel, with ctrl or by pinching, around where the pointer is.
let zoom = 0;
main.addEventListener("wheel", (e) => {
  const tl = e.target.closest?.("[data-timeline]"), track = e.target.closest?.(".track");
  if (!tl || !track || !(e.ctrlKey || e.metaKey)) return;
  e.preventDefault();
  const from = +tl.dataset.from, to = +tl.dataset.to, total = +tl.dataset.total, box = track.getBoundingClientRect();
  const points = (tl.dataset.axis || `0:${from} 1:${to}`).split(" ").map((p) => p.split(":").map(Number)); // times without work are drawn short
  const timeAt = (x) => {
    if (x < 0) return from + x * (to - from);
    if (x > 1) return to + (x - 1) * (to - from);
    const i = Math.max(points.findIndex((p) => p[0] >= x), 1), [x0, t0] = points[i - 1], [x1, t1] = points[i];
    return x1 > x0 ? t0 + (t1 - t0) * (x - x0) / (x1 - x0) : t1;
  };
  const at = Math.min(Math.max((e.clientX - box.left) / box.width, 0), 1), by = e.deltaY < 0 ? 0.7 : 1.4;
  const a = Math.max(0, Math.round(timeAt(at - at * by))), b = Math.min(total, Math.round(timeAt(at + (1 - at) * by)));
  if (b - a < 10) return;
  tl.dataset.from = a; tl.dataset.to = b; tl.dataset.axis = "";
  clearTimeout(zoom);
  zoom = setTimeout(() => { const u = new URL(location.href); u.searchParams.set("from", a); u.searchParams.set("to", b); u.searchParams.delete("row"); go(u.href, false); }, 60);
}, { passive: false });

function ready() {
  for (const b of $$("[data-help]")) b.hidden = false;
  if (navigator.clipboard) for (const b of $$("[data-copy]")) b.hidden = false;
  views(); many(); tick(); commands(main); openSealed();
}

// Sealed data: the codec endpoint opens them for this browser. The token stays in this tab, and the console receives neither it nor the data.
const codec = document.body.dataset.codec, tokenAt = "flowgen.codec";
const auto = 64 << 10, mostAtOnce = 200, mostBytes = 4 << 20, mostText = 2000;
const codecButton = $("[data-codec-button]"), opened = new Map(); // answers by place and data
let opening = false, refusal = "";
const reasons = {
  key: "the endpoint does not have this key", damaged: "damaged: it does not belong here, or was changed", version: "sealed by a newer release", size: "too large for the endpoint",
  blob: "the blob of the data is missing", out: "sign in to decrypt it", refused: "the endpoint refuses your token", down: "the endpoint cannot be reached, or does not permit this page", failed: "the endpoint has failed",
};
const token = () => { try { return sessionStorage.getItem(tokenAt) || ""; } catch { return ""; } };
const keepToken = (t) => { try { if (t) sessionStorage.setItem(tokenAt, t); else sessionStorage.removeItem(tokenAt); } catch { say("This browser keeps nothing"); } };
const visible = (s) => s.replace(/[\p{C}\p{Z}]/gu, (c) => c === " " || c === "\n" || c === "\t" ? c : "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"));
const placeOf = (e) => [e.dataset.owner, e.dataset.field, e.dataset.sealed].join("\n");
function refuse(e, code) {
  e.dataset.said ??= e.textContent;
  e.dataset.state = code;
  e.textContent = e.dataset.said + ": " + (reasons[code] || reasons.failed);
}
// Numbers keep all digits.
const parse = (text) => JSON.parse(text, (_, v, c) => typeof v === "number" && c?.source && JSON.rawJSON ? JSON.rawJSON(c.source) : v);
// chunkOf removes the origin that precedes the value of a chunk: a version, the attempt, and for steps a run and a key with their lengths.
function chunkOf(bytes) {
  let at = 1;
  const number = () => { let n = 0, k = 0, b; do { b = bytes[at++]; n |= (b & 127) << k; k += 7; } while (b > 127); return n; };
  if (number()) for (let i = 0; i < 2; i++) { const n = number(); at += n; }
  return new TextDecoder().decode(bytes.subarray(at));
}
function textOf(e, answer, line) {
  let v = answer.value;
  if (e.dataset.chunk) {
    const bytes = answer.base64 ? Uint8Array.from(atob(answer.base64), (c) => c.charCodeAt(0)) : new TextEncoder().encode(v);
    const text = chunkOf(bytes);
    try { v = parse(text); } catch { return text; }
  } else if (answer.base64) return answer.base64;
  else if (typeof v === "string" && !/(payload|data|meta)$/.test(e.dataset.field)) return v; // a text, and not JSON
  return JSON.stringify(v, null, line ? 0 : 2);
}
function reveal(e, answer) {
  if (answer.code) { refuse(e, answer.code); return; }
  const block = e.closest(".payload"), text = textOf(e, answer, !block), most = block ? mostText : 300;
  e.dataset.state = "open";
  e.dataset.said ??= e.textContent;
  e.title = e.dataset.said;
  e.textContent = visible(text.length > most ? text.slice(0, most) + "…" : text);
  if (!block || text.length <= most) return;
  const b = button("Save all", "button", "small");
  b.addEventListener("click", () => {
    const a = document.createElement("a");
    a.href = URL.createObjectURL(new Blob([text], { type: "application/json" })); a.download = "payload.json"; a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  });
  e.append(" ", b);
}
// ask sends sealed data to the endpoint and returns its answers, or the code of a refusal.
async function ask(all) {
  const own = new URL(codec).origin === location.origin, headers = { "Content-Type": "application/json" };
  if (token()) headers.Authorization = "Bearer " + token(); else if (!own) return "out";
  const payloads = all.map((e) => ({ owner: e.dataset.owner, field: e.dataset.field, blobs: e.dataset.blobs || "", data: e.dataset.sealed }));
  let r, text;
  try {
    r = await fetch(codec + "/open", { method: "POST", headers, body: JSON.stringify({ payloads }), credentials: "same-origin", redirect: "error", signal: AbortSignal.timeout(20000) });
    text = await r.text();
  } catch { return "down"; }
  if (r.status === 401 || r.status === 403) return token() ? "refused" : "out";
  try { const answers = parse(text).payloads; return r.ok && answers.length === all.length ? answers : "failed"; } catch { return "failed"; }
}
async function openAll(all) {
  const answers = await ask(all);
  const refused = typeof answers === "string";
  refusal = refused ? answers : "";
  all.forEach((e, i) => {
    if (refused) { refuse(e, answers); return; }
    if (+e.dataset.size <= auto) opened.set(placeOf(e), answers[i]);
    reveal(e, answers[i]);
  });
  if (opened.size > 1000) opened.clear();
  codecState();
  return !refused;
}
// large adds a button that opens a large payload.
function large(e) {
  e.dataset.state = "large";
  e.dataset.said ??= e.textContent;
  if (!e.closest(".payload")) return;
  const b = button("Decrypt", "button", "small");
  b.addEventListener("click", async () => {
    b.disabled = true;
    try {
      if (!e.dataset.sealed) e.dataset.sealed = (await (await fetch(e.dataset.src)).json())["flowgen.sealed"].data;
      await openAll([e]);
    } catch { refuse(e, "failed"); }
    b.disabled = false;
    if (e.dataset.state !== "open") e.append(" ", b);
  });
  e.append(" ", b);
}
async function openSealed() {
  if (!codec || opening) return;
  opening = true;
  for (;;) {
    const all = [];
    let bytes = 0;
    for (const e of $$(".sealed[data-owner]")) {
      if (e.dataset.state) continue;
      const known = opened.get(placeOf(e));
      if (known) { reveal(e, known); continue; }
      if (!e.dataset.sealed || +e.dataset.size > auto) { large(e); continue; }
      bytes += Math.max(+e.dataset.size, e.dataset.sealed.length);
      if (all.length === mostAtOnce || all.length && bytes > mostBytes) break;
      all.push(e);
    }
    if (!all.length) break;
    if (!await openAll(all)) { for (const e of $$(".sealed[data-sealed]:not([data-state])")) refuse(e, refusal); break; }
  }
  opening = false;
  codecState();
}
function codecState() {
  if (!codecButton) return;
  codecButton.hidden = false;
  codecButton.textContent = refusal === "down" || refusal === "failed" ? "Decrypt again" : !token() || refusal ? "Sign in to decrypt" : "Stop decrypting";
  codecButton.title = refusal ? reasons[refusal] : "Sealed data are opened by " + new URL(codec).origin;
}
function openAgain() {
  for (const e of $$(".sealed[data-state]")) if (e.dataset.state !== "open" && e.dataset.state !== "large") { e.textContent = e.dataset.said; delete e.dataset.state; }
  refusal = "";
  openSealed();
}
codecButton?.addEventListener("click", () => {
  if (refusal === "down" || refusal === "failed") { openAgain(); return; }
  if (token() && !refusal) { keepToken(""); location.reload(); return; }
  const [d, f] = box("Sign in to decrypt"), p = document.createElement("p"), l = document.createElement("label"), i = document.createElement("input"), acts = document.createElement("p"), note = document.createElement("p");
  note.textContent = "The token is sent to " + new URL(codec).origin + " and kept in this tab. The console does not receive it.";
  p.className = "field"; l.textContent = "Token of the codec endpoint"; l.htmlFor = i.id = "codec-token"; i.type = "password"; i.required = true; i.autocomplete = "off";
  const back = button("Back", "button", "");
  back.addEventListener("click", () => d.close());
  acts.className = "acts"; acts.append(back, button("Sign in", "submit", "primary"));
  p.append(l, i); f.append(note, p, acts);
  f.addEventListener("submit", () => { keepToken(i.value.trim()); openAgain(); });
  d.showModal(); i.focus();
});
$("form[action$='/logout']")?.addEventListener("submit", () => keepToken(""));
ready();
listen();
$(".top nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
