#!/usr/bin/env python3
"""Draws the chart's Grafana dashboard from a kubediff that runs: dashboard-to-svg.py URL SECONDS > dashboard.svg

Scrapes URL every two seconds for so long, lets Prometheus' own engine evaluate every query of the dashboard over the
scrapes (`tests/cluster/build promql`), and draws the panels where the dashboard has them. It is no Grafana: lines, names
and last values are all there is. The picture in docs/images/ is of `kubediff run` on the control plane that
`make cluster` starts, beside some `kubectl` commands and a webhook that fails for a while.
"""
import html
import json
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLOURS = ["#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#508642", "#cca300"]
COLUMN, LINE = 50, 26
EVERY, WINDOW = 2, "20s"


def scrape(url, seconds):
    scrapes, began = [], time.time()
    while time.time() - began < seconds:
        with urllib.request.urlopen(url, timeout=10) as answer:
            scrapes.append({"at": time.time(), "text": answer.read().decode()})
        time.sleep(EVERY)
    return scrapes


def evaluate(scrapes, panels):
    start, end = scrapes[0]["at"], scrapes[-1]["at"]
    filled = lambda expr: expr.replace("$job", ".*").replace("$__rate_interval", WINDOW)
    exprs = [filled(target["expr"]) for panel in panels for target in panel.get("targets", [])]
    queries = [{"expr": expr, "start": start, "end": end, "step": EVERY} for expr in exprs]
    built = subprocess.run([ROOT / "tests/cluster/build", "promql"], check=True, capture_output=True, text=True)
    program = built.stdout.split()[1]
    asked = json.dumps({"scrapes": scrapes, "queries": queries})
    answer = subprocess.run([program], input=asked, check=True, capture_output=True, text=True)
    return {found["expr"]: found["series"] for found in json.loads(answer.stdout)}, filled, (start, end)


def human(value, unit):
    if unit == "percentunit":
        return f"{value * 100:.0f} %"
    if unit == "s":
        return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s" if value < 120 else f"{value / 60:.0f} min"
    if unit == "bytes":
        for word in ["B", "KiB", "MiB", "GiB"]:
            if value < 1024 or word == "GiB":
                return f"{value:.1f} {word}"
            value /= 1024
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return text + ("/s" if unit == "ops" else "")


def name(series, legend):
    text = legend
    for key, value in series["labels"].items():
        text = text.replace("{{" + key + "}}", value)
    return re.sub(r"{{\w+}}", "", text).strip() or "all"


def text(x, y, words, size=12, fill="#c7d0d9", anchor="start", weight="normal"):
    return (f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{html.escape(words)}</text>')


def graph(x, y, w, h, found, unit, span):
    out, left, bottom = [], x + 52, y + h - 34
    top, right = y + 28, x + w - 10
    points = [value for _, series in found for _, value in series["points"]]
    most = max(points + [0]) or 1
    for share in [0, 0.5, 1]:
        at = bottom - (bottom - top) * share
        out.append(f'<line x1="{left}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}" stroke="#2c3235"/>')
        out.append(text(left - 6, at + 4, human(most * share, unit), 10, "#8e9aa4", "end"))
    for n, (_, series) in enumerate(found):
        scale = lambda p: (left + (p[0] - span[0]) / (span[1] - span[0]) * (right - left), bottom - p[1] / most * (bottom - top))
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in map(scale, series["points"]))
        out.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[n % len(COLOURS)]}" stroke-width="1.5"/>')
    at, shown = x + 10, 0
    for n, (label, series) in enumerate(found):
        words = f"{label}: {human(series['points'][-1][1], unit)}"
        if at + 14 + len(words) * 5.6 > x + w - 30:
            break
        out.append(f'<rect x="{at:.0f}" y="{y + h - 17}" width="8" height="3" fill="{COLOURS[n % len(COLOURS)]}"/>')
        out.append(text(at + 12, y + h - 11, words, 10, "#9fa7b3"))
        at, shown = at + 26 + len(words) * 5.6, shown + 1
    if shown < len(found):
        out.append(text(x + w - 8, y + h - 11, f"+{len(found) - shown}", 10, "#9fa7b3", "end"))
    return out


def draw(dashboard, series, filled, span):
    panels, out, height = dashboard["panels"], [], 0
    for panel in panels:
        place = panel["gridPos"]
        x, y, w, h = place["x"] * COLUMN, place["y"] * LINE + 50, place["w"] * COLUMN, place["h"] * LINE
        height = max(height, y + h)
        if panel["type"] == "row":
            out.append(text(x + 8, y + 18, panel["title"], 14, "#ffffff", weight="bold"))
            continue
        x, y, w, h = x + 4, y + 3, w - 8, h - 6
        unit = panel["fieldConfig"]["defaults"]["unit"]
        out.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="3" fill="#181b1f" stroke="#25282c"/>')
        out.append(text(x + 10, y + 18, panel["title"]))
        found = [(name(one, target["legendFormat"]), one)
                 for target in panel["targets"] for one in series[filled(target["expr"])]]
        if panel["type"] == "stat":
            words = found[0][0] if panel["options"].get("textMode") == "name" else human(found[0][1]["points"][-1][1], unit)
            out.append(text(x + w / 2, y + h / 2 + 20, words, 16 if len(words) > 12 else 28, "#73bf69", "middle", "bold"))
        elif panel["type"] == "table":
            last = [one["labels"] for _, one in found if one["points"][-1][0] > span[1] - 2 * EVERY]
            for n, labels in enumerate(last[:5]):
                words = "   ".join(labels.get(key, "") for key in ["resource", "scope", "state"])
                out.append(text(x + 14, y + 42 + n * 18, words))
            if not last:
                out.append(text(x + 14, y + 42, "none", fill="#8e9aa4"))
        else:
            out += graph(x, y, w, h, found, unit, span)
    minutes = (span[1] - span[0]) / 60
    width = 24 * COLUMN
    title = f"{dashboard['title']}: {minutes:.0f} minutes of a real run"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + 10}" '
            f'font-family="Inter, Helvetica, Arial, sans-serif"><rect width="{width}" height="{height + 10}" fill="#111217"/>'
            + text(12, 32, title, 18, "#ffffff", weight="bold") + "".join(out) + "</svg>")


def main():
    url, seconds = sys.argv[1], float(sys.argv[2])
    dashboard = json.loads((ROOT / "charts/kubediff/dashboards/kubediff.json").read_text())
    scrapes = scrape(url, seconds)
    series, filled, span = evaluate(scrapes, dashboard["panels"])
    print(draw(dashboard, series, filled, span))


main()
