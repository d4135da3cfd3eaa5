//! A schedule's knobs as numbers: the JSON of `schedule_knobs`, with split factors resolved against extents.

use std::borrow::Cow;

use opdata::JsonText;
use opdata::contract::knobs::ContractionKnobs;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// The template of this project's register-tiled reductions.
const CONTRACTION: &str = "contraction";
/// The template's name as the collector writes it in JSON.
const WRITTEN: &str = r#""template":"contraction""#;

/// The knobs of one schedule.
#[derive(Debug, Clone)]
pub enum Knobs {
    /// Knobs of this project's register-tiled reductions.
    Contraction(ContractionKnobs),
    /// All others, by name. There are a dozen: a list is quicker to make than a map, and searched as quickly.
    Named(Vec<(String, Value)>),
}

/// Identifies the template of a set of knobs.
#[derive(serde::Deserialize)]
struct Tagged<'a> {
    #[serde(borrow)]
    template: Option<Cow<'a, str>>,
}

/// This project's templates without a register tile. Their numbers follow those of [`super::cpu::nest::Template`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlatTemplate {
    /// Flattened, vectorised, parallel.
    Spatial = 20,
    /// Whole rows, one after the other.
    Rows = 21,
}

/// A schedule without a register tile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flat {
    /// The template.
    pub template: FlatTemplate,
    /// Lanes of its vectors.
    pub vector: f64,
    /// Vectors of a step, where the template has such.
    pub unroll: Option<f64>,
    /// Pieces of the parallel loop; missing for one a step.
    pub pieces: Option<f64>,
}

/// The entries of an object, in their order.
struct Entries(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visited;
        impl<'de> Visitor<'de> for Visited {
            type Value = Entries;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::with_capacity(16);
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Visited)
    }
}

impl Default for Knobs {
    /// A schedule without knobs.
    fn default() -> Self {
        Self::Named(Vec::new())
    }
}

impl Knobs {
    /// Reads the column; anything but an object holds no knobs.
    pub fn read(text: Option<&JsonText>) -> Self {
        let Some(text) = text else {
            return Self::default();
        };
        if let Some(knobs) = contraction(text.as_str()) {
            return Self::Contraction(knobs);
        }
        let entries = text.decode::<Entries>();
        entries.map_or_else(|_| Self::default(), |entries| Self::Named(entries.0))
    }

    fn named(&self) -> &[(String, Value)] {
        match self {
            Self::Contraction(_) => &[],
            Self::Named(entries) => entries,
        }
    }

    /// Whether there are no knobs.
    pub fn is_empty(&self) -> bool {
        self.contraction().is_none() && self.named().is_empty()
    }

    /// The template, if the knobs name one.
    pub fn template(&self) -> Option<&str> {
        match self {
            Self::Contraction(_) => Some(CONTRACTION),
            Self::Named(_) => self.text("template"),
        }
    }

    /// A text.
    fn text(&self, name: &str) -> Option<&str> {
        self.value(name)?.as_str()
    }

    /// A number; true and false count 1 and 0.
    pub fn number(&self, name: &str) -> Option<f64> {
        let value = self.value(name)?;
        value
            .as_f64()
            .or_else(|| value.as_bool().map(|b| f64::from(u8::from(b))))
    }

    /// The raw JSON of a knob.
    pub fn value(&self, name: &str) -> Option<&Value> {
        let mut last_first = self.named().iter().rev();
        last_first.find(|entry| entry.0 == name).map(|e| &e.1)
    }

    /// The knobs of this project's register-tiled reductions, if they are such.
    pub fn contraction(&self) -> Option<&ContractionKnobs> {
        match self {
            Self::Contraction(knobs) => Some(knobs),
            Self::Named(_) => None,
        }
    }

    /// The schedule as one of this project's templates without a register tile, if it is one.
    pub fn flat(&self) -> Option<Flat> {
        let template = match self.template()? {
            "spatial" => FlatTemplate::Spatial,
            "rows" => FlatTemplate::Rows,
            _ => return None,
        };
        Some(Flat {
            template,
            vector: self.number("vector_length")?,
            unroll: self.number("unroll"),
            pieces: self.number("parallel_extent"),
        })
    }

    /// The number of factors of a split; 0 if the knobs have no such split.
    pub fn arity(&self, name: &str) -> usize {
        self.value(name)
            .and_then(Value::as_array)
            .map_or(0, Vec::len)
    }

    /// A split of an axis of `extent` into `N` factors, outermost first. A factor that the log left open (-1) is what
    /// covers the extent. Shorter splits are padded after the outermost factor.
    pub fn split<const N: usize>(&self, name: &str, extent: f64) -> Option<[f64; N]> {
        let factors = self.value(name)?.as_array()?;
        if factors.is_empty() || factors.len() > N {
            return None;
        }
        let mut result = [1.0; N];
        let padding = N - factors.len();
        for (place, factor) in factors.iter().enumerate() {
            let factor = factor.as_f64()?;
            result[if place == 0 { 0 } else { place + padding }] =
                if factor == 0.0 { 1.0 } else { factor };
        }
        let inner: f64 = result[1..].iter().product();
        if result[0] < 0.0 {
            result[0] = (extent / inner).ceil().max(1.0);
        }
        (inner > 0.0).then_some(result)
    }

    /// Products over all splits of the outermost, the middle and the innermost factors (open ones count 1).
    pub fn products(&self) -> Option<[f64; 3]> {
        let mut products = [1.0; 3];
        let mut any = false;
        let splits = self.named().iter();
        for factors in splits.filter_map(|(_, value)| value.as_array()) {
            let Some(factors) = factors
                .iter()
                .map(Value::as_f64)
                .collect::<Option<Vec<f64>>>()
            else {
                continue;
            };
            if factors.len() < 2 {
                continue;
            }
            any = true;
            let last = factors.len() - 1;
            for (place, factor) in factors.iter().enumerate() {
                let which = match place {
                    0 => 0,
                    p if p == last => 2,
                    _ => 1,
                };
                products[which] *= factor.max(1.0);
            }
        }
        any.then_some(products)
    }
}

/// The knobs of a register-tiled reduction, if the text is such.
fn contraction(text: &str) -> Option<ContractionKnobs> {
    let named = || {
        let tagged: Option<Tagged<'_>> = serde_json::from_str(text).ok();
        tagged.is_some_and(|tagged| tagged.template.as_deref() == Some(CONTRACTION))
    };
    // Only texts that have the template's name, but not as the collector writes it, are parsed twice.
    let own = text.contains(WRITTEN) || text.contains(CONTRACTION) && named();
    own.then(|| serde_json::from_str(text).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knobs(text: &str) -> Knobs {
        Knobs::read(Some(&text.parse().unwrap()))
    }

    #[test]
    fn splits_are_resolved_and_padded() {
        let knobs = knobs(r#"{"a":[-1,4,2],"b":[3,5],"c":true,"d":[-1,0],"e":["none","unroll"]}"#);
        assert_eq!(knobs.split::<3>("a", 20.0), Some([3.0, 4.0, 2.0]));
        assert_eq!(knobs.split::<4>("b", 15.0), Some([3.0, 1.0, 1.0, 5.0]));
        assert_eq!(knobs.split::<2>("a", 20.0), None);
        assert_eq!(knobs.split::<2>("d", 7.0), Some([7.0, 1.0]));
        assert_eq!(knobs.split::<2>("e", 7.0), None);
        assert_eq!(
            (knobs.number("c"), knobs.arity("a"), knobs.arity("x")),
            (Some(1.0), 3, 0)
        );
        assert_eq!(knobs.products(), Some([3.0, 4.0, 10.0]));
    }

    #[test]
    fn a_reduction_is_known_by_its_template_however_it_is_written() {
        let rest = r#""vector_axis":"ff","vector_length":16,"vector_blocks":2,"tile":[["xx",7]],"loop_order":["xx"],"fused_outer":1}"#;
        for template in [
            r#""template":"contraction""#,
            "\"template\" :\n\"contraction\"",
        ] {
            let own = knobs(&format!("{{{template},{rest}"));
            assert_eq!(own.contraction().unwrap().tile_of("xx"), 7);
            assert_eq!(
                (own.template(), own.is_empty()),
                (Some("contraction"), false)
            );
        }
        for template in [
            r#""template":"spatial""#,
            r#""word":"contraction""#,
            r#""template":null,"word":"contraction""#,
        ] {
            let other = knobs(&format!("{{{template},{rest}"));
            assert_eq!(other.contraction(), None);
            assert_eq!(other.number("vector_length"), Some(16.0));
        }
        // The GPU's template of the same name has other knobs.
        let gpu = knobs(r#"{"template":"contraction","block_m":64}"#);
        assert_eq!(
            (gpu.contraction(), gpu.number("block_m")),
            (None, Some(64.0))
        );
        assert_eq!(gpu.template(), Some("contraction"));
    }

    #[test]
    fn schedules_without_a_register_tile_are_read() {
        let flat =
            knobs(r#"{"template":"spatial","vector_length":16,"unroll":2,"parallel_extent":4}"#);
        let flat = flat.flat().unwrap();
        assert_eq!((flat.template, flat.vector), (FlatTemplate::Spatial, 16.0));
        assert_eq!((flat.unroll, flat.pieces), (Some(2.0), Some(4.0)));
        let rows = knobs(r#"{"template":"rows","vector_length":8,"parallel_extent":null}"#);
        let rows = rows.flat().unwrap();
        assert_eq!((rows.template, rows.pieces), (FlatTemplate::Rows, None));
        assert_eq!(knobs(r#"{"template":"contraction"}"#).flat(), None);
    }
}
