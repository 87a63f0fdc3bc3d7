// A document as lines of YAML, the way `kubectl get -o yaml` writes it, each with the path of what stands in it.

/// [{text, path, parent}]: `path` has list items by their names, as `spec.template.spec.containers[web].image`; `parent` is
/// the path of what it stands in.
export function lines(document) {
  const out = [];
  if (document === null || document === undefined) return out;
  if (isFull(document)) members(document, "", "", "", out);
  else out.push({ text: scalar(document), path: "", parent: "" });
  return out;
}

const isFull = (value) => typeof value === "object" && value !== null && Object.keys(value).length > 0;

/// `lead` is what the first line begins with (`- ` of a list), `pad` what the others do.
function members(value, lead, pad, path, out) {
  let start = lead;
  if (Array.isArray(value)) {
    value.forEach((item, index) => {
      const at = `${path}[${nameOf(item) ?? index}]`;
      if (isFull(item)) members(item, `${start}- `, `${pad}  `, at, out);
      else leaf(`${start}- `, item, `${pad}  `, at, path, out);
      start = pad;
    });
    return;
  }
  for (const [key, member] of Object.entries(value)) {
    const at = path ? `${path}.${key}` : key;
    const head = `${start}${quoted(key)}:`;
    if (isFull(member)) {
      out.push({ text: head, path: at, parent: path });
      const inner = Array.isArray(member) ? pad : `${pad}  `;
      members(member, inner, inner, at, out);
    } else leaf(`${head} `, member, `${pad}  `, at, path, out);
    start = pad;
  }
}

function leaf(head, value, pad, path, parent, out) {
  if (typeof value === "string" && isBlock(value)) {
    const style = !value.endsWith("\n") ? "|-" : value.endsWith("\n\n") ? "|+" : "|";
    out.push({ text: head + style, path, parent });
    for (const line of value.replace(/\n$/, "").split("\n")) out.push({ text: line ? pad + line : "", path, parent: path });
  } else out.push({ text: head + scalar(value), path, parent });
}

/// What a list's item is called, where it says so.
function nameOf(item) {
  if (typeof item !== "object" || item === null) return undefined;
  for (const key of ["name", "type", "key", "containerPort", "port", "ip"]) {
    if (typeof item[key] === "string" || typeof item[key] === "number") return item[key];
  }
  return undefined;
}

function scalar(value) {
  if (typeof value === "string") return quoted(value);
  return JSON.stringify(value);
}

const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\ufeff]/;

function isBlock(text) {
  return text.replace(/\n+$/, "").includes("\n") && !/^[ \n\t]/.test(text) && !CONTROL.test(text);
}

const WORDS = new Set(["null", "~", "true", "false", "yes", "no", "on", "off", "y", "n", ".nan", ".inf", "-.inf", "+.inf", "=", "<<", "..."]);

/// Plain where that reads back as the same text, else in double quotes.
function quoted(text) {
  const plain =
    /^([\p{L}\p{N}/._($+;=^<\\~]|-(?!$| |--))/u.test(text) &&
    !WORDS.has(text.toLowerCase()) &&
    !/^[-+.]*\d[\d_:.+\-eETZ]*$/.test(text) &&
    !/^[-+]?0[xo]/.test(text) &&
    !text.includes(": ") &&
    !text.includes(" #") &&
    !/[: ]$/.test(text) &&
    !/[\t\n]/.test(text) &&
    !CONTROL.test(text);
  return plain ? text : JSON.stringify(text);
}
