//! `vshare top`: the processes under vshare, live.

mod app;
mod page;
mod view;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::Failure;
use crate::interrupt::Interrupt;
use crate::segments::Place;
use crate::snapshot::Snapshot;
use app::{App, Flow};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Milliseconds from one look to the next
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(50..=60_000))]
    interval: u64,
    #[command(flatten)]
    place: Place,
}

pub(crate) fn top(options: &Options) -> Result<ExitCode, Failure> {
    options.place.directory()?;
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::new(
            "this is no terminal: `vshare top` needs one; `vshare ps` prints what there is once",
        ));
    }
    let interrupted = Interrupt::new()?;
    let no_terminal = |error| {
        Failure::new(format!(
            "cannot use this terminal: {error}; `vshare ps` needs none"
        ))
    };
    let mut terminal = ratatui::try_init().map_err(no_terminal)?;
    let done = watch(&mut terminal, options, &interrupted);
    let restored = ratatui::try_restore().map_err(no_terminal);
    done.and(restored).map(|()| ExitCode::SUCCESS)
}

fn watch(
    terminal: &mut DefaultTerminal,
    options: &Options,
    interrupted: &Interrupt,
) -> Result<(), Failure> {
    let lost = |error| Failure::new(format!("the terminal has gone: {error}"));
    let interval = Duration::from_millis(options.interval);
    let mut app = App::default();
    let mut last = Instant::now();
    look(&mut app, &options.place, Duration::ZERO)?;
    loop {
        terminal
            .draw(|frame| view::draw(frame, &app))
            .map_err(lost)?;
        let left = interval.saturating_sub(last.elapsed());
        if event::poll(left).map_err(lost)? {
            if let Event::Key(key) = event::read().map_err(lost)?
                && key.kind != KeyEventKind::Release
                && app.key(key.code, key.modifiers) == Flow::Quit
            {
                return Ok(());
            }
        } else if interrupted.within(Duration::ZERO) {
            return Ok(());
        } else {
            let elapsed = last.elapsed();
            last = Instant::now();
            look(&mut app, &options.place, elapsed)?;
        }
    }
}

/// Reads all segments; those that cannot be read are counted, since there is no place to tell of each.
fn look(app: &mut App, place: &Place, elapsed: Duration) -> Result<(), Failure> {
    let seen = place.survey()?;
    let all = seen.len();
    let segments: Vec<_> = seen
        .into_iter()
        .filter_map(|seen| seen.segment.ok())
        .collect();
    let unreadable = all - segments.len();
    let read = segments
        .iter()
        .map(|segment| (Snapshot::of(segment), segment));
    app.update(read, unreadable, elapsed);
    Ok(())
}

#[cfg(test)]
type Screen = Box<dyn Fn(&mut ratatui::Frame<'_>)>;

/// The list and the page of the first process after two looks, for tests.
#[cfg(test)]
pub(crate) fn screens(
    segments: Vec<(Snapshot, vshare_shm::reader::Segment)>,
    elapsed: Duration,
) -> [Screen; 2] {
    use ratatui::crossterm::event::{KeyCode, KeyModifiers};
    let app = |keys: &[KeyCode]| {
        let mut app = App::default();
        for again in [false, true] {
            let segments = segments
                .iter()
                .map(|(snapshot, segment)| (snapshot.clone(), segment));
            app.update(segments, 0, elapsed);
            if !again {
                for key in keys {
                    app.key(*key, KeyModifiers::NONE);
                }
            }
        }
        app
    };
    let (list, page) = (
        app(&[KeyCode::Char('d')]),
        app(&[KeyCode::Char('d'), KeyCode::Enter]),
    );
    [
        Box::new(move |frame| view::draw(frame, &list)),
        Box::new(move |frame| view::draw(frame, &page)),
    ]
}
