//! The template `grid`: the output's outermost loop in pieces of `grain` iterations, which are unrolled in the style `deep`.

use serde::{Deserialize, Serialize};
use tvm_bridge::{PrimFunc, Result, Schedule};

use crate::schedule::{
    Choice, Combined, Dimension, Factor, FactorInfo, FactorSettings, FactorValue, Space, Templates,
    unfit,
};

const NAME: &str = "grid";
const GRAIN: &str = "grain";
const STYLE: &str = "style";

/// The factors of the template.
pub(super) const FACTORS: &[FactorInfo] = &[
    FactorInfo::named(GRAIN, "iterations of a piece"),
    FactorInfo::named(STYLE, "whether pieces are unrolled"),
];

/// The knobs of the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Grid {
    pub grain: i64,
    #[serde(default)]
    pub style: Style,
}

/// The work on a piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Style {
    /// The piece stays a loop.
    #[default]
    Wide,
    /// The piece is unrolled.
    Deep,
}

impl Style {
    const ALL: [Style; 2] = [Style::Wide, Style::Deep];

    pub fn word(self) -> &'static str {
        match self {
            Style::Wide => "wide",
            Style::Deep => "deep",
        }
    }
}

impl Grid {
    pub fn of(choice: &Choice) -> std::result::Result<Grid, serde_json::Error> {
        use serde::de::Error;
        match choice.template.as_str() {
            NAME => choice.knobs(),
            other => Err(serde_json::Error::custom(format!(
                "unknown template `{other}`, expected `{NAME}`"
            ))),
        }
    }

    pub fn choice(&self) -> Choice {
        Choice::new(NAME, self)
    }

    fn apply(self, s: &Schedule) -> Result<Choice> {
        let blocks = s.blocks()?;
        let output = blocks.last().ok_or_else(|| unfit("no block"))?;
        let loops = s.loops(output)?;
        let outermost = loops.first().ok_or_else(|| unfit("no loop"))?;
        let split = s.split(outermost, &[None, Some(self.grain)])?;
        if self.style == Style::Deep {
            s.unroll(&split[1])?;
        }
        Ok(self.choice())
    }
}

/// The schedule of a space with these settings.
///
/// # Errors
/// Fails if a piece of one iteration cannot be unrolled.
pub(super) fn combine(space: &Space, settings: &FactorSettings<'_>) -> Combined {
    let Ok(mut grid) = Grid::of(&space.base) else {
        return Ok(space.base.clone());
    };
    for (dimension, setting) in settings {
        match (dimension.factor.name(), setting) {
            (GRAIN, FactorValue::Number(grain)) => grid.grain = *grain,
            (STYLE, FactorValue::Word(word)) => {
                let found = Style::ALL.into_iter().find(|s| s.word() == word);
                grid.style = found.ok_or_else(|| format!("no style {word}"))?;
            }
            _ => return Err(format!("{} cannot be {setting}", dimension.name())),
        }
    }
    if grid.grain == 1 && grid.style == Style::Deep {
        return Err("a piece of one iteration is not deep".to_owned());
    }
    Ok(grid.choice())
}

/// The template for every operator.
#[derive(Debug, Clone, Copy)]
pub(super) struct GridTemplate;

impl Templates for GridTemplate {
    fn suggest(&self, schedule: &Schedule, attempt: usize) -> Option<Result<Choice>> {
        let plain = Grid {
            grain: 1,
            style: Style::Wide,
        };
        (attempt == 0).then(|| plain.apply(schedule))
    }

    fn apply(&self, schedule: &Schedule, choice: &Choice) -> Result<Choice> {
        let grid = Grid::of(choice).map_err(|error| unfit(&error.to_string()))?;
        grid.apply(schedule)
    }

    fn space(&self, function: &PrimFunc) -> Result<Space> {
        let s = Schedule::new(function, 0)?;
        let Some(Ok(base)) = self.suggest(&s, 0) else {
            return Ok(Space::fixed(Choice::unscheduled()));
        };
        let styles = Style::ALL.map(Style::word);
        let dimensions = vec![
            Dimension::numbers(Factor::named(GRAIN), [1, 2, 4, 8], 1),
            Dimension::words(Factor::named(STYLE), styles),
        ];
        Ok(Space::new(base, dimensions, serde_json::Value::Null))
    }
}
