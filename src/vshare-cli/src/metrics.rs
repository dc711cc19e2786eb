//! `vshare metrics`: what Prometheus reads, over HTTP or in a file for the node exporter's textfile collector.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tiny_http::{Header, Method, Request, Response, Server};

use crate::exposition::{self, Format};
use crate::segments::{Place, is_others};
use crate::snapshot::Snapshot;
use crate::{Failure, say, write_whole};

/// Requests that are answered at the same time.
const WORKERS: usize = 4;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where to serve /metrics; whoever can reach it can read it
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9477")]
    listen: String,
    /// Write a file for a textfile collector instead, as a whole or not at all
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    textfile: Option<PathBuf>,
    /// With --textfile: write it again and again, so many seconds apart [default: once]
    #[arg(long, value_name = "SECONDS", requires = "textfile", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    every: Option<u64>,
    #[command(flatten)]
    place: Place,
}

pub(crate) fn metrics(options: &Options) -> Result<ExitCode, Failure> {
    options.place.directory()?;
    match &options.textfile {
        None => serve(&options.listen, &options.place),
        Some(path) => write(path, options),
    }
}

/// The metrics now.
fn now(place: &Place, format: Format) -> Result<String, Failure> {
    let mut snapshots = Vec::new();
    let mut unreadable = 0;
    for seen in place.survey()? {
        match seen.segment {
            Ok(segment) => snapshots.push(Snapshot::of(&segment)),
            Err(error) if is_others(&error) => {}
            Err(_) => unreadable += 1,
        }
    }
    exposition::render(snapshots, unreadable, format)
}

fn write(path: &Path, options: &Options) -> Result<ExitCode, Failure> {
    loop {
        // Beside it under a name that is not *.prom: the collector would read that.
        write_whole(path, &now(&options.place, Format::Plain)?)?;
        let Some(seconds) = options.every else {
            return Ok(ExitCode::SUCCESS);
        };
        std::thread::sleep(Duration::from_secs(seconds));
    }
}

fn serve(listen: &str, place: &Place) -> Result<ExitCode, Failure> {
    let addresses: Vec<SocketAddr> = listen
        .to_socket_addrs()
        .map_err(|error| {
            let message = format!(
                "{listen}: no address and port to listen on, such as 127.0.0.1:9477: {error}"
            );
            Failure::with_code(message, 2)
        })?
        .collect();
    let server = Server::http(&*addresses).map_err(|error| {
        Failure::new(format!(
            "cannot listen on {listen}: {error}; --listen names another address and port"
        ))
    })?;
    match server.server_addr().to_ip() {
        Some(address) => say(format_args!("serving http://{address}/metrics")),
        None => say("serving /metrics"),
    }
    // Several, so that one that reads slowly does not hold up all others.
    let ended = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| scope.spawn(|| answer_all(&server, place)))
            .collect();
        workers.into_iter().find_map(|worker| worker.join().ok())
    });
    let why = ended.map_or_else(|| "unknown error".to_owned(), |error| error.to_string());
    Err(Failure::new(format!("cannot go on listening: {why}")))
}

fn answer_all(server: &Server, place: &Place) -> std::io::Error {
    loop {
        match server.recv() {
            // Whoever has gone meanwhile misses an answer, and nobody else does.
            Ok(request) => _ = answer(request, place),
            Err(error) => return error,
        }
    }
}

fn answer(request: Request, place: &Place) -> std::io::Result<()> {
    let path = request.url().split('?').next().unwrap_or_default();
    let known = matches!(path, "/" | "/metrics");
    let (code, body, content_type) = match (request.method(), known, path) {
        (Method::Get | Method::Head, _, "/metrics") => {
            let format = wanted(&request);
            match now(place, format) {
                Ok(said) => (200, said, format.content_type()),
                Err(failure) => (500, failure.message + "\n", TEXT),
            }
        }
        (Method::Get | Method::Head, true, _) => {
            (200, "vshare: metrics are at /metrics\n".to_owned(), TEXT)
        }
        (_, true, _) => (405, "only GET is answered\n".to_owned(), TEXT),
        (_, false, _) => (404, "there is only /metrics\n".to_owned(), TEXT),
    };
    let mut response = Response::from_string(body).with_status_code(code);
    if let Ok(header) = Header::from_bytes("Content-Type", content_type) {
        response.add_header(header);
    }
    request.respond(response)
}

const TEXT: &str = "text/plain; charset=utf-8";

/// Prometheus says so if it reads OpenMetrics; a browser gets what a person can read too.
fn wanted(request: &Request) -> Format {
    let accepts = request.headers().iter().any(|header| {
        header.field.equiv("Accept")
            && header
                .value
                .as_str()
                .contains("application/openmetrics-text")
    });
    match accepts {
        true => Format::OpenMetrics,
        false => Format::Plain,
    }
}
