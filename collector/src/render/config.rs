//! `--print-config`: every setting, its value, and its layer.

use opreport::Style;
use opreport::table::{Cell, Column, Table};

use crate::config::{Settings, env_name};

/// The settings as a table.
pub fn settings_text(settings: &Settings, style: Style) -> String {
    let mut table = Table::new(&[
        Column::left("setting"),
        Column::left("value").shrinks_to(16),
        Column::left("from").shrinks_to(20),
        Column::left("variable").hides(0),
    ]);
    for value in settings.values() {
        let origin = value.origin.to_string();
        table.row([
            value.key.into(),
            value.text().into(),
            if value.is_given() {
                Cell::painted(origin, Style::bold)
            } else {
                Cell::painted(origin, Style::dim)
            },
            Cell::painted(env_name(value.key), Style::dim),
        ]);
    }
    table.render(style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layers;

    #[test]
    fn values_and_origins() {
        let layers = Layers {
            command_line: [("threads", vec!["1,2".to_owned()])].into(),
            environment: vec![("OPCOLLECT_SEED".into(), "7".into())],
            file: None,
            sweep: None,
        };
        let settings = layers.merge().unwrap();
        let text = settings_text(&settings, Style::PLAIN);
        let picked: Vec<&str> = text
            .lines()
            .filter(|line| {
                ["setting", "threads", "seed", "out"]
                    .iter()
                    .any(|key| line.starts_with(key))
            })
            .collect();
        insta::assert_snapshot!(picked.join("\n"), @"
        setting           value    from                        variable
        threads           1,2      command line                OPCOLLECT_THREADS
        seed              7        environment OPCOLLECT_SEED  OPCOLLECT_SEED
        out               -        default                     OPCOLLECT_OUT
        ");
        let object = serde_json::json!(settings);
        assert_eq!(
            object["values"].as_array().unwrap().len(),
            crate::config::SETTINGS.len()
        );
    }
}
