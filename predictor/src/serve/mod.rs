//! Answers over HTTP: JSON in and out, a description for programs (OpenAPI) and a small page for people.
//!
//! | path | |
//! | --- | --- |
//! | `GET /` | the page |
//! | `GET /openapi.json` | the description |
//! | `GET /v1/model` | what the model knows |
//! | `POST /v1/query` | one operator at several numbers of threads and batch sizes |
//!
//! Loopback unless told otherwise. A request has a greatest size and time; the server ends when it is told to, after the
//! requests under way.

mod api;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::routing::{get, post};
use tower_http::timeout::TimeoutLayer;

use crate::query::Trained;

/// Largest request, bytes.
const LARGEST_REQUEST_BYTES: usize = 64 << 10;
/// Longest request.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);

/// The routes over a model.
pub fn router(model: Arc<Trained>) -> Router {
    Router::new()
        .route("/", get(api::page))
        .route("/openapi.json", get(api::description))
        .route("/v1/model", get(api::model))
        .route("/v1/query", post(api::query))
        .fallback(api::nowhere)
        .layer(DefaultBodyLimit::max(LARGEST_REQUEST_BYTES))
        .layer(TimeoutLayer::with_status_code(
            StatusCode::REQUEST_TIMEOUT,
            LONGEST_REQUEST,
        ))
        .with_state(model)
}

/// Serves until Ctrl-C or SIGTERM. `ready` is told the address, which has the port that the system chose for port 0.
///
/// # Errors
/// The address cannot be listened on, or the system fails.
pub fn serve(
    model: Trained,
    address: SocketAddr,
    ready: impl FnOnce(SocketAddr),
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await?;
        ready(listener.local_addr()?);
        axum::serve(listener, router(Arc::new(model)))
            .with_graceful_shutdown(told_to_end())
            .await
    })
}

async fn told_to_end() {
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            // Without the signal Ctrl-C is left.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}
