//! Writes `SCHEMA.md` from the column table.

fn main() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/SCHEMA.md");
    std::fs::write(path, opdata::schema::schema_markdown())
}
