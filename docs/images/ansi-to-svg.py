#!/usr/bin/env python3
"""Draws what a terminal shows as an SVG: ansi-to-svg.py "TITLE" < text-with-colours > picture.svg

The text of docs/images/demo.svg is what `docs/images/demo` catches of a real `kubediff demo`.
The text of docs/images/watch.svg is `tmux capture-pane -e -p` of a real `kubediff watch` on the control plane that
`make cluster` starts. Knows the few codes that kubediff prints: bold, dim, red, green, yellow, reset.
"""
import html
import re
import sys

COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341"}
LINE, CHAR, PAD, BAR = 20, 8.43, 18, 36


def spans(line):
    style, out = {}, []
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if not part.startswith("\x1b["):
            if part:
                # Not all that draw SVG keep runs of spaces.
                text = html.escape(part).replace(" ", "\u00a0")
                attributes = "".join(f' {k}="{v}"' for k, v in style.items())
                out.append(f"<tspan{attributes}>{text}</tspan>" if style else text)
            continue
        for code in part[2:-1].split(";"):
            if code in COLOURS:
                style["fill"] = COLOURS[code]
            elif code == "1":
                style["font-weight"] = "bold"
            elif code == "2":
                style["fill-opacity"] = "0.6"
            elif code == "39":
                style.pop("fill", None)
            else:
                style = {}
    return "".join(out)


lines = sys.stdin.read().rstrip("\n").split("\n")
width = max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in lines) * CHAR + 2 * PAD
height = BAR + len(lines) * LINE + PAD
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}">')
print(f"<title>{html.escape(sys.argv[1])}</title>")
print(f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#0d1117"/>')
print('<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" font-size="14" fill="#e6edf3">')
print(f'<text x="{PAD}" y="23" fill-opacity="0.6">{html.escape(sys.argv[1])}</text>')
for row, line in enumerate(lines):
    # Not all keep the spaces at the beginning either.
    start = re.match(r"(?:\x1b\[[0-9;]*m| )*", line).group()
    rest, indent = start.replace(" ", "") + line[len(start):], start.count(" ")
    print(f'<text x="{PAD + indent * CHAR:.1f}" y="{BAR + (row + 1) * LINE - 6}">{spans(rest)}</text>')
print("</g>\n</svg>")
