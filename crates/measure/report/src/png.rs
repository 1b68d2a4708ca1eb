// SPDX-License-Identifier: GPL-2.0-or-later
//! A drawing as a PNG image, three pixels to each of CSS, which is 288 dots an inch.
//!
//! Texts are drawn in the system's sans-serif font. None is carried along: it would be as large as what draws it, and
//! the SVG, which is what papers want, needs none.

use crate::Error;
use resvg::{
    tiny_skia::{Pixmap, Transform},
    usvg::{Options, Tree, fontdb},
};

/// Pixels to each of CSS.
const SCALE: f32 = 3.0;
/// A larger image is drawn with fewer, and one that is larger still not at all: 4 bytes each in memory.
const MOST_PIXELS: f32 = 60e6;
/// Families that have what `sans-serif` stands for, where fontconfig does not say.
const FAMILIES: [&str; 6] =
    ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Roboto", "Arial", "Helvetica"];

/// Draws an SVG document.
///
/// # Errors
/// There is no font, or the image would be too large.
pub fn png(svg: &str) -> Result<Vec<u8>, Error> {
    let mut fonts = fontdb::Database::new();
    fonts.load_system_fonts();
    draw(svg, fonts)
}

fn draw(svg: &str, mut fonts: fontdb::Database) -> Result<Vec<u8>, Error> {
    choose_sans_serif(&mut fonts)?;
    let mut options = Options::default();
    *options.fontdb_mut() = fonts;
    let failed =
        |text: &dyn std::fmt::Display| Error::Png(format!("cannot draw it as PNG: {text}"));
    let tree = Tree::from_str(svg, &options).map_err(|e| failed(&e))?;
    let size = tree.size();
    let scale = SCALE.min((MOST_PIXELS / (size.width() * size.height())).sqrt());
    if scale < 1.0 {
        let text = "it has too many panels for an image of pixels; name a file that ends in .svg";
        return Err(failed(&text));
    }
    let pixels = |length: f32| (length * scale).ceil() as u32;
    let pixmap = Pixmap::new(pixels(size.width()), pixels(size.height()));
    let mut pixmap = pixmap.ok_or_else(|| failed(&"it has no size"))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|e| failed(&e))
}

/// Makes sure that `sans-serif` is a font that there is.
fn choose_sans_serif(fonts: &mut fontdb::Database) -> Result<(), Error> {
    let has = |fonts: &fontdb::Database, family: fontdb::Family<'_>| {
        let query = fontdb::Query { families: &[family], ..fontdb::Query::default() };
        fonts.query(&query).is_some()
    };
    if has(fonts, fontdb::Family::SansSerif) {
        return Ok(());
    }
    let known = FAMILIES.into_iter().find(|name| has(fonts, fontdb::Family::Name(name)));
    let any = || fonts.faces().next()?.families.first().map(|(name, _)| name.clone());
    let family = known.map(str::to_owned).or_else(any).ok_or_else(|| {
        Error::Png(
            "a PNG needs a font for its texts, and this system has none: apt install fonts-dejavu-core, \
             or name a file that ends in .svg"
                .to_owned(),
        )
    })?;
    fonts.set_sans_serif_family(family);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn svg(width: u32, height: u32) -> String {
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"
            font-family="system-ui, sans-serif" font-size="40"><rect width="100%" height="100%" fill="#fff"/>
            <text x="5" y="40">Mb/s</text><rect x="{}" width="10" height="10" fill="#332288"/></svg>"##,
            width - 10
        )
    }

    #[test]
    fn image_has_its_size_texts_and_colours() {
        let bytes = png(&svg(120, 50)).unwrap();
        let image = Pixmap::decode_png(&bytes).unwrap();
        assert_eq!((image.width(), image.height()), (360, 150));
        let corner = image.pixel(359, 0).unwrap();
        assert_eq!((corner.red(), corner.green(), corner.blue()), (0x33, 0x22, 0x88));
        // The letters are black, on the left half.
        let letters = (0..150).flat_map(|y| (0..300).map(move |x| (x, y)));
        let black = letters.filter(|(x, y)| image.pixel(*x, *y).unwrap().red() == 0).count();
        assert!(black > 1000, "{black}");
    }

    #[test]
    fn without_a_font_or_of_too_many_pixels_there_is_none() {
        let text = draw(&svg(120, 50), fontdb::Database::new()).unwrap_err().to_string();
        assert!(text.contains("this system has none: apt install fonts-dejavu-core"), "{text}");
        let text = png(&svg(10_000, 10_000)).unwrap_err().to_string();
        assert!(text.contains("name a file that ends in .svg"), "{text}");
    }
}
