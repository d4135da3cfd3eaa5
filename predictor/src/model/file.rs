//! The `.opm` file: one trained model.
//!
//! `OPBENCHM`, format (u32), length of the header (u64), the header (JSON), the trees. The header has the feature list,
//! members, facts, measured operators, the effect of running inside a model, and the lengths of the parts that follow.
//! Trees are UBJSON of XGBoost: the members, the surrogate, and the trees for an adapted model's new machine. The
//! values of the nearest rows (f32) follow, and last the SHA-256 of everything before it. Numbers are little-endian. A
//! file of another format or feature list is refused: its trees would read other columns than they were trained on.

use std::io::Read;
use std::path::Path;

use oplearn::features::{FEATURE_VERSION, FEATURES};
use oplearn::interference::Kept;
use oplearn::models::context::Context;
use oplearn::models::ensemble::Ensemble;
use oplearn::models::member::{Member, MemberSpec};
use oplearn::models::rates::Rates;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::model::Correction;
use crate::model::adaptation::{Adaptation, Alike, Fresh, Shares};
use crate::model::known::Known;
use crate::model::neighbours::Neighbours;
use crate::model::trained::{Facts, Trained};

/// The first bytes.
const MAGIC: &[u8; 8] = b"OPBENCHM";
/// The format of this build.
pub const FORMAT: u32 = 9;
const CHECKSUM_BYTES: usize = 32;
const PREFIX_BYTES: usize = MAGIC.len() + 4 + 8;
const RETRAIN: &str = "train it again with `oppredict train`";

#[derive(Serialize, Deserialize)]
struct Header {
    feature_version: u32,
    features: Vec<String>,
    tool_version: String,
    ensemble: EnsembleEntry,
    #[serde(rename = "fast")]
    surrogate: MemberEntry,
    context: Context,
    adaptation: Option<AdaptationEntry>,
    facts: Facts,
    known: Known,
    #[serde(default)]
    interference: Kept,
    neighbours: Neighbours,
    neighbour_values: usize,
}

#[derive(Serialize, Deserialize)]
struct AdaptationEntry {
    alike: Vec<Alike>,
    factor: Correction,
    correction: Correction,
    extent: [f64; 2],
    shares: Shares,
    rest: Vec<MemberEntry>,
    rates: Option<[Rates; 2]>,
    alone: Option<EnsembleEntry>,
}

#[derive(Serialize, Deserialize)]
struct EnsembleEntry {
    members: Vec<MemberEntry>,
    workloads: Vec<u64>,
    machines: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
struct MemberEntry {
    spec: MemberSpec,
    rates: Option<Rates>,
    bytes: usize,
}

/// Writes a model; the old file stays until the new one is whole.
///
/// # Errors
/// Fails if the file cannot be written, or XGBoost's library fails.
pub fn save(model: &Trained, path: &Path) -> Result<()> {
    let mut trees = Vec::new();
    let mut entry = |member: &Member| -> Result<MemberEntry> {
        let before = trees.len();
        trees.extend(member.to_bytes()?);
        Ok(MemberEntry {
            spec: member.spec.clone(),
            rates: member.rates,
            bytes: trees.len() - before,
        })
    };
    let header = Header {
        feature_version: FEATURE_VERSION,
        features: FEATURES.iter().map(|f| f.name.to_owned()).collect(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        ensemble: ensemble_entry(&model.ensemble, &mut entry)?,
        surrogate: entry(&model.surrogate)?,
        context: model.context.clone(),
        adaptation: match &model.adaptation {
            None => None,
            Some(adaptation) => Some(adaptation_entry(adaptation, &mut entry)?),
        },
        known: model.known.clone(),
        interference: model.interference.clone(),
        facts: model.facts.clone(),
        neighbours: model.neighbours.clone(),
        neighbour_values: model.neighbours.values.len(),
    };
    let header = serde_json::to_vec(&header).map_err(|e| damaged(path, e.to_string()))?;
    let mut bytes = Vec::new();
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&(header.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(&trees);
    for value in &model.neighbours.values {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    let checksum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&checksum);
    opdata::write_atomically(path, &bytes)?;
    Ok(())
}

/// The bytes of a regular file: a device may have no end.
fn whole(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    opdata::open_regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a model.
///
/// # Errors
/// Fails if the file is missing, not a model, damaged, or of another format or feature list.
pub fn load(path: &Path) -> Result<Trained> {
    let bytes = whole(path).map_err(|error| Error::ModelFile {
        path: path.to_owned(),
        detail: format!("it cannot be read: {error}"),
        next: "check the path, or train a model with `oppredict train`",
    })?;
    let header_end = checked(path, &bytes)?;
    let header: Header = serde_json::from_slice(&bytes[PREFIX_BYTES..header_end])
        .map_err(|error| damaged(path, format!("its header is damaged: {error}")))?;
    let names: Vec<&str> = FEATURES.iter().map(|f| f.name).collect();
    if header.feature_version != FEATURE_VERSION || header.features != names {
        return Err(damaged(
            path,
            format!(
                "it was trained on version {} of the feature list ({} features), and this program has version \
                 {FEATURE_VERSION} ({})",
                header.feature_version,
                header.features.len(),
                names.len()
            ),
        ));
    }
    let mut rest = &bytes[header_end..bytes.len() - CHECKSUM_BYTES];
    let mut take = |length: usize| {
        let (taken, left) = rest
            .split_at_checked(length)
            .ok_or_else(|| damaged(path, "it is shorter than its header says".to_owned()))?;
        rest = left;
        Ok::<&[u8], Error>(taken)
    };
    let mut member = |entry: MemberEntry| -> Result<Member> {
        Ok(Member::from_bytes(
            entry.spec,
            entry.rates,
            take(entry.bytes)?,
        )?)
    };
    let ensemble = ensemble_of(path, header.ensemble, &mut member)?;
    let surrogate = member(header.surrogate)?;
    let adaptation = match header.adaptation {
        None => None,
        Some(entry) => Some(adaptation_of(path, entry, &mut member)?),
    };
    let mut neighbours = header.neighbours;
    let values = take(header.neighbour_values.saturating_mul(4))?;
    neighbours.values = values
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    if neighbours.values.len() != neighbours.expected_values() {
        return Err(damaged(path, "its parts do not fit together".to_owned()));
    }
    Ok(Trained {
        ensemble,
        surrogate,
        context: header.context,
        adaptation,
        neighbours,
        known: header.known,
        interference: header.interference,
        facts: header.facts,
    })
}

fn ensemble_entry(
    ensemble: &Ensemble,
    entry: &mut impl FnMut(&Member) -> Result<MemberEntry>,
) -> Result<EnsembleEntry> {
    Ok(EnsembleEntry {
        members: ensemble.members.iter().map(entry).collect::<Result<_>>()?,
        workloads: ensemble.workloads.clone(),
        machines: ensemble.machines.clone(),
    })
}

fn adaptation_entry(
    adaptation: &Adaptation,
    entry: &mut impl FnMut(&Member) -> Result<MemberEntry>,
) -> Result<AdaptationEntry> {
    let fresh = adaptation.fresh.as_ref();
    let rest = fresh.map_or(&[][..], |fresh| &fresh.rest);
    Ok(AdaptationEntry {
        alike: adaptation.alike.clone(),
        factor: adaptation.factor.clone(),
        correction: adaptation.correction.clone(),
        shares: adaptation.shares,
        extent: adaptation.extent,
        rest: rest.iter().map(&mut *entry).collect::<Result<_>>()?,
        rates: fresh.map(|fresh| fresh.rates),
        alone: match fresh {
            None => None,
            Some(fresh) => Some(ensemble_entry(&fresh.alone, entry)?),
        },
    })
}

fn adaptation_of(
    path: &Path,
    entry: AdaptationEntry,
    member: &mut impl FnMut(MemberEntry) -> Result<Member>,
) -> Result<Adaptation> {
    let rest = entry.rest.into_iter().map(&mut *member);
    let rest: Vec<Member> = rest.collect::<Result<_>>()?;
    let fresh = match entry.rates.zip(entry.alone) {
        None => None,
        Some((rates, alone)) => Some(Fresh {
            rest,
            rates,
            alone: ensemble_of(path, alone, member)?,
        }),
    };
    Ok(Adaptation {
        alike: entry.alike,
        factor: entry.factor,
        correction: entry.correction,
        extent: entry.extent,
        fresh,
        shares: entry.shares,
    })
}

fn ensemble_of(
    path: &Path,
    entry: EnsembleEntry,
    member: &mut impl FnMut(MemberEntry) -> Result<Member>,
) -> Result<Ensemble> {
    if entry.members.is_empty() {
        return Err(damaged(path, "it has no members".to_owned()));
    }
    Ok(Ensemble {
        members: entry
            .members
            .into_iter()
            .map(member)
            .collect::<Result<_>>()?,
        workloads: entry.workloads,
        machines: entry.machines,
    })
}

/// Checks everything that can be checked without understanding the content; returns where the header ends.
fn checked(path: &Path, bytes: &[u8]) -> Result<usize> {
    if bytes.len() < MAGIC.len() || &bytes[..MAGIC.len()] != MAGIC {
        return Err(Error::ModelFile {
            path: path.to_owned(),
            detail: "it is no model of oppredict".to_owned(),
            next: "name a file that `oppredict train` wrote",
        });
    }
    if bytes.len() < PREFIX_BYTES + CHECKSUM_BYTES {
        return Err(damaged(path, "it is cut short".to_owned()));
    }
    let format = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    if format != FORMAT {
        return Err(damaged(
            path,
            format!("it has format {format}, and this program reads format {FORMAT}"),
        ));
    }
    let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    if Sha256::digest(content).as_slice() != checksum {
        return Err(damaged(
            path,
            "its checksum does not fit: it is damaged or cut short".to_owned(),
        ));
    }
    let mut length = [0; 8];
    length.copy_from_slice(&bytes[12..PREFIX_BYTES]);
    usize::try_from(u64::from_le_bytes(length))
        .ok()
        .and_then(|length| length.checked_add(PREFIX_BYTES))
        .filter(|end| *end <= content.len())
        .ok_or_else(|| damaged(path, "its header is longer than the file".to_owned()))
}

fn damaged(path: &Path, detail: String) -> Error {
    Error::ModelFile {
        path: path.to_owned(),
        detail,
        next: RETRAIN,
    }
}
