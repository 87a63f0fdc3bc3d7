//! Line plots as SVG, both axes logarithmic.

use std::fmt::Write as _;

pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

pub struct Plot {
    pub title: String,
    x: &'static str,
    y: &'static str,
    pub series: Vec<Series>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 4] = ["#0b6e4f", "#7cc6a4", "#b23a48", "#e8a0a8"];

/// The decades that hold all values.
struct Axis {
    from: i32,
    to: i32,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>) -> Self {
        let logs: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let from = logs.iter().copied().fold(f64::INFINITY, f64::min);
        let to = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !from.is_finite() {
            return Self { from: 0, to: 1 };
        }
        let from = from.floor() as i32;
        Self { from, to: (to.ceil() as i32).max(from + 1) }
    }

    /// 0 to 1.
    fn at(&self, value: f64) -> f64 {
        (value.max(1e-9).log10() - f64::from(self.from)) / f64::from(self.to - self.from)
    }
}

impl Plot {
    pub fn new(title: &str, x: &'static str, y: &'static str) -> Self {
        Self { title: title.to_owned(), x, y, series: Vec::new() }
    }

    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let (x_axis, y_axis) = (Axis::new(points().map(|p| p.0)), Axis::new(points().map(|p| p.1)));
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let x = |value: f64| LEFT + x_axis.at(value) * (right - LEFT);
        let y = |value: f64| bottom - y_axis.at(value) * (bottom - TOP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n",
            self.title
        );
        for decade in x_axis.from..=x_axis.to {
            let at = x(10f64.powi(decade));
            let _ = writeln!(svg, "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#e4e4e4\"/>");
            let _ = writeln!(
                svg,
                "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                label(decade)
            );
        }
        for decade in y_axis.from..=y_axis.to {
            let at = y(10f64.powi(decade));
            let _ = writeln!(svg, "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#e4e4e4\"/>");
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                label(decade)
            );
        }
        let middle = TOP.midpoint(bottom);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            LEFT.midpoint(right),
            HEIGHT - 12.0,
            self.x
        );
        let _ = writeln!(
            svg,
            "<text transform=\"translate(18 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            self.y
        );
        for (i, series) in self.series.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let mut points = series.points.clone();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let line: Vec<String> = points.iter().map(|p| format!("{:.1},{:.1}", x(p.0), y(p.1))).collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                line.join(" ")
            );
            for point in &points {
                let (x, y) = (x(point.0), y(point.1));
                let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>");
                let _ = writeln!(
                    svg,
                    "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\" font-size=\"10\">{}</text>",
                    x + 5.0,
                    y - 5.0,
                    short(point.1)
                );
            }
            let at = TOP + 10.0 + 18.0 * i as f64;
            let _ = writeln!(
                svg,
                "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"4\" fill=\"{colour}\"/>",
                right + 14.0,
                at - 5.0
            );
            let _ = writeln!(svg, "<text x=\"{}\" y=\"{at}\">{}</text>", right + 32.0, series.name);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn label(decade: i32) -> String {
    match decade {
        6.. => format!("{} million", 10u64.pow(decade as u32 - 6)),
        3..6 => format!("{},000", 10u64.pow(decade as u32 - 3)),
        0..3 => 10u64.pow(decade as u32).to_string(),
        ..0 => format!("{}", 10f64.powi(decade)),
    }
}

fn short(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}
