//! Line plots as SVG: both axes logarithmic, or both from zero.

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
    logarithmic: bool,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 4] = ["#0b6e4f", "#7cc6a4", "#b23a48", "#e8a0a8"];

/// What an axis spans, and what is written on it.
struct Axis {
    from: f64,
    to: f64,
    logarithmic: bool,
    marks: Vec<(f64, String)>,
}

impl Axis {
    fn new(logarithmic: bool, values: impl Iterator<Item = f64>) -> Self {
        if logarithmic { Self::decades(values) } else { Self::from_zero(values) }
    }

    /// The decades that hold all values.
    fn decades(values: impl Iterator<Item = f64>) -> Self {
        let logs: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let from = logs.iter().copied().fold(f64::INFINITY, f64::min);
        let to = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (from, to) = if from.is_finite() { (from.floor() as i32, to.ceil() as i32) } else { (0, 1) };
        let to = to.max(from + 1);
        let marks = (from..=to).map(|decade| (10f64.powi(decade), label(decade))).collect();
        Self { from: f64::from(from), to: f64::from(to), logarithmic: true, marks }
    }

    /// Up to the next round number, with five marks or fewer than ten.
    fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        let most = values.fold(1e-9, f64::max);
        let decade = 10f64.powf(most.log10().floor());
        let step =
            [0.2, 0.5, 1.0, 2.0].map(|n| n * decade).into_iter().find(|step| most / step <= 6.0).unwrap_or(decade);
        let marks = (0..).map(|n| f64::from(n) * step).take_while(|at| *at < most + step);
        let marks: Vec<(f64, String)> = marks.map(|at| (at, short(at))).collect();
        Self { from: 0.0, to: marks.last().map_or(1.0, |(at, _)| *at), logarithmic: false, marks }
    }

    /// 0 to 1.
    fn at(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.max(1e-9).log10() } else { value };
        (value - self.from) / (self.to - self.from)
    }
}

impl Plot {
    pub fn new(title: &str, x: &'static str, y: &'static str) -> Self {
        Self { title: title.to_owned(), x, y, series: Vec::new(), logarithmic: true }
    }

    /// With axes from zero, and lines without marks.
    pub fn from_zero(title: &str, x: &'static str, y: &'static str) -> Self {
        Self { logarithmic: false, ..Self::new(title, x, y) }
    }

    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let (x_axis, y_axis) =
            (Axis::new(self.logarithmic, points().map(|p| p.0)), Axis::new(self.logarithmic, points().map(|p| p.1)));
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let x = |value: f64| LEFT + x_axis.at(value) * (right - LEFT);
        let y = |value: f64| bottom - y_axis.at(value) * (bottom - TOP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n",
            self.title
        );
        for (value, label) in &x_axis.marks {
            let at = x(*value);
            let _ = writeln!(svg, "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#e4e4e4\"/>");
            let _ =
                writeln!(svg, "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>", bottom + 18.0, label);
        }
        for (value, label) in &y_axis.marks {
            let at = y(*value);
            let _ = writeln!(svg, "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#e4e4e4\"/>");
            let _ =
                writeln!(svg, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", LEFT - 6.0, at + 4.0, label);
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
            for point in points.iter().filter(|_| self.logarithmic) {
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
    if value < 10.0 && value.fract() > 0.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}
