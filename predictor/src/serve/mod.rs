//! Answers over HTTP: JSON in and out, a description for programs (OpenAPI) and a small page for people.
//!
//! | path | |
//! | --- | --- |
//! | `GET /` | the page |
//! | `GET /openapi.json` | the description |
//! | `GET /v1/model` | what the model knows |
//! | `POST /v1/query` | one operator at several numbers of threads and batch sizes |
//! | `POST /v1/whole` | a whole model of the zoo at several numbers of threads |
//! | `POST /v1/batch` | many such queries at once |
//!
//! Loopback by default. Request size, request time and the number of connections are limited; on Ctrl-C or SIGTERM the
//! server finishes the requests under way and ends.

mod api;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use axum::{Router, middleware};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use opmodels::Importer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use self::api::Served;
use crate::model::Trained;
use crate::query::batch::MAX_QUERY_BYTES;

/// Largest batch of queries, bytes.
const MAX_BATCH_BYTES: usize = 4 << 20;
/// Longest time from a request's head to its answer.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);
/// Longest time of a request about a whole model, which may have to be imported and checked first.
const LONGEST_IMPORT: Duration = Duration::from_secs(120);
/// Longest wait for a request's head, and for the next one on a connection that is kept open.
const LONGEST_HEAD: Duration = Duration::from_secs(15);
/// Connections at once; others wait in the system's queue.
const MAX_CONNECTIONS: usize = 256;
/// Time that pending requests have when the server stops.
const GRACE: Duration = Duration::from_secs(5);
/// Pause after a connection could not be accepted, for example because file descriptors ran out.
const PAUSE: Duration = Duration::from_millis(50);

/// The routes over a model.
fn router(served: Arc<Served>) -> Router {
    let batch = post(api::batch).layer(DefaultBodyLimit::max(MAX_BATCH_BYTES));
    let whole = post(api::whole).layer(middleware::from_fn(|request, next| {
        api::in_time(LONGEST_IMPORT, request, next)
    }));
    Router::new()
        .route("/", get(api::page))
        .route("/openapi.json", get(api::description))
        .route("/v1/model", get(api::model))
        .route("/v1/query", post(api::query))
        .route("/v1/batch", batch)
        .layer(middleware::from_fn(|request, next| {
            api::in_time(LONGEST_REQUEST, request, next)
        }))
        .route("/v1/whole", whole)
        .fallback(api::nowhere)
        .method_not_allowed_fallback(api::other_method)
        .layer(DefaultBodyLimit::max(MAX_QUERY_BYTES))
        .with_state(served)
}

/// Serves until Ctrl-C or SIGTERM. `importer` is for whole models. `ready` gets the address, with the port that the system
/// chose for port 0.
///
/// # Errors
/// Fails if the address cannot be bound or the system fails.
pub fn serve(
    model: Trained,
    importer: Option<Importer>,
    address: SocketAddr,
    ready: impl FnOnce(SocketAddr),
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        ready(listener.local_addr()?);
        let served = Served {
            model,
            importer: importer.map(Mutex::new),
        };
        accept(listener, router(Arc::new(served))).await;
        Ok(())
    })
}

/// Takes connections until a signal ends it.
async fn accept(listener: TcpListener, app: Router) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(LONGEST_HEAD);
    let mut end = pin!(end_requested());
    loop {
        let next = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, taken(&listener).await)
        };
        let (place, stream) = tokio::select! {
            next = next => next,
            () = &mut end => break,
        };
        let service = TowerToHyperService::new(app.clone());
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // The client sees errors of its connection.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    tokio::select! {
        () = graceful.shutdown() => {}
        () = tokio::time::sleep(GRACE) => {}
    }
}

/// The next connection.
async fn taken(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are one write each; waiting to fill a packet only delays them.
                let _ = stream.set_nodelay(true);
                return stream;
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn end_requested() {
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
