//! Cost against size as an SVG: one curve, its limit, axes from zero.

use std::{fmt::Write as _, path::Path};

use anyhow::{Context, Result};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 40.0;
const TOP: f64 = 40.0;

/// One curve.
pub(crate) struct Plot {
    /// The file's name without its ending.
    pub(crate) file: &'static str,
    pub(crate) title: &'static str,
    /// Of the values.
    pub(crate) unit: &'static str,
    /// Of the sizes.
    pub(crate) size: &'static str,
    /// Sizes and values, the sizes rising.
    pub(crate) points: Vec<(f64, f64)>,
    /// What no value may exceed.
    pub(crate) limit: Option<f64>,
}

/// Writes one file a plot.
pub(crate) fn write_all(plots: &[Plot], directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    for plot in plots {
        let path = directory.join(format!("{}.svg", plot.file));
        std::fs::write(&path, plot.svg())
            .with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

impl Plot {
    fn svg(&self) -> String {
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0_f64, f64::max);
        let widest = most(&mut self.points.iter().map(|(size, _)| *size)).max(1.0);
        let values = self.points.iter().map(|(_, value)| *value);
        let tallest = most(&mut values.chain(self.limit)).max(f64::EPSILON) * 1.1;
        let x = |size: f64| LEFT + size / widest * (WIDTH - LEFT - 20.0);
        let y = |value: f64| HEIGHT - BOTTOM - value / tallest * (HEIGHT - BOTTOM - TOP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{} ({})</text>\n\
             <path d=\"M{LEFT} {TOP} V{} H{}\" fill=\"none\" stroke=\"black\"/>\n",
            self.title,
            self.unit,
            HEIGHT - BOTTOM,
            WIDTH - 20.0
        );
        if let Some(limit) = self.limit {
            let at = y(limit);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {at:.1} H{}\" stroke=\"#c33\" stroke-dasharray=\"6 4\"/>\n\
                 <text x=\"{LEFT}\" y=\"{:.1}\" dx=\"6\" fill=\"#c33\">limit {limit}</text>",
                WIDTH - 20.0,
                at - 5.0
            );
        }
        let path: Vec<String> = self
            .points
            .iter()
            .map(|(size, value)| format!("{:.1} {:.1}", x(*size), y(*value)))
            .collect();
        let _ = writeln!(
            svg,
            "<path d=\"M{}\" fill=\"none\" stroke=\"#36c\" stroke-width=\"2\"/>",
            path.join(" L")
        );
        for (size, value) in &self.points {
            let (x, y) = (x(*size), y(*value));
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"#36c\"/>\n\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{value:.3}</text>\n\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{size}</text>",
                y - 8.0,
                HEIGHT - BOTTOM + 16.0
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n</svg>",
            WIDTH - 20.0,
            HEIGHT - 6.0,
            self.size
        );
        svg
    }
}
