//! A schedule's knobs as numbers: the JSON of `schedule_knobs`, with split factors resolved against extents.

use std::cell::OnceCell;

use opdata::JsonText;
use opdata::contract::knobs::{Choice, ContractionKnobs};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// The knobs of one schedule. There are a dozen: a list is quicker to make than a map, and searched as quickly.
#[derive(Debug, Clone, Default)]
pub struct Knobs {
    entries: Vec<(String, Value)>,
    /// What [`Knobs::contraction`] answers, once it was asked.
    contraction: OnceCell<Option<ContractionKnobs>>,
}

/// This project's templates without a register tile; their numbers follow those of [`super::cpu::Template`].
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

impl<'de> Deserialize<'de> for Knobs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Knobs;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Knobs, A::Error> {
                let mut entries = Vec::with_capacity(16);
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Knobs {
                    entries,
                    contraction: OnceCell::new(),
                })
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

impl Knobs {
    /// Reads the column; anything but an object holds no knobs.
    pub fn read(text: Option<&JsonText>) -> Self {
        text.and_then(|text| text.decode().ok()).unwrap_or_default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a knob is there.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
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
        let mut last_first = self.entries.iter().rev();
        last_first.find(|entry| entry.0 == name).map(|e| &e.1)
    }

    /// The knobs of this project's register-tiled reductions, if they are such.
    pub fn contraction(&self) -> Option<&ContractionKnobs> {
        let read = || self.read_contraction();
        self.contraction.get_or_init(read).as_ref()
    }

    fn read_contraction(&self) -> Option<ContractionKnobs> {
        // Others are not copied to see that they are not.
        if self.text("template") != Some("contraction") {
            return None;
        }
        let object = self.entries.iter().cloned().collect();
        match Choice::deserialize(&Value::Object(object)).ok()? {
            Choice::Contraction(knobs) => Some(knobs),
            _ => None,
        }
    }

    /// What is known of this project's schedules without a register tile, if it is such.
    pub fn flat(&self) -> Option<Flat> {
        let template = match self.text("template")? {
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

    /// The number of factors of a split, 0 if there is no such split.
    pub fn arity(&self, name: &str) -> usize {
        self.value(name)
            .and_then(Value::as_array)
            .map_or(0, Vec::len)
    }

    /// A split of an axis of `extent` into `N` factors, outermost first. A factor that the log left open (-1) is what
    /// covers the extent. Shorter splits are padded behind the outermost factor.
    pub fn split<const N: usize>(&self, name: &str, extent: f64) -> Option<[f64; N]> {
        let factors: Vec<f64> = self
            .value(name)?
            .as_array()?
            .iter()
            .map(|f| f.as_f64().map(|f| if f == 0.0 { 1.0 } else { f }))
            .collect::<Option<_>>()?;
        if factors.is_empty() || factors.len() > N {
            return None;
        }
        let mut result = [1.0; N];
        let padding = N - factors.len();
        for (place, factor) in factors.iter().enumerate() {
            result[if place == 0 { 0 } else { place + padding }] = *factor;
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
        for factors in self
            .entries
            .iter()
            .filter_map(|(_, value)| value.as_array())
        {
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
