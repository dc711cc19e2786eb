//! What `vshare top` shows, on a terminal in memory.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use vshare_shm::Record;
use vshare_shm::process::{Identity, Liveness};
use vshare_shm::reader::{Event, Reading};
use vshare_shm::record::Class;

use super::*;
use crate::top::app::Flow;

fn process(pid: u32, command: &str, values: &[(&str, u64)]) -> Snapshot {
    let counters = values.iter().map(|(name, value)| Reading {
        name: (*name).to_owned(),
        unit: String::new(),
        help: String::new(),
        is_gauge: false,
        value: *value,
    });
    Snapshot {
        owner: Identity { pid, start_time: 1 },
        uid: 0,
        command: command.to_owned(),
        policy: "lru".to_owned(),
        library: String::new(),
        device: None,
        liveness: Liveness::Alive,
        said: None,
        counters: counters.collect(),
    }
}

fn three(moved: u64) -> Vec<Snapshot> {
    let mut dead = process(3, "gone", &[("resident_bytes", 9 << 30)]);
    dead.liveness = Liveness::Dead;
    vec![
        process(
            1,
            "python small.py",
            &[("resident_bytes", 1 << 30), ("budget_bytes", 2 << 30)],
        ),
        process(
            2,
            "big",
            &[
                ("resident_bytes", 4 << 30),
                ("budget_bytes", 4 << 30),
                ("promoted_bytes", moved),
            ],
        ),
        dead,
    ]
}

fn app() -> App {
    let mut app = App::default();
    app.update_only(three(0), Duration::ZERO);
    app.update_only(three(3 << 30), Duration::from_secs(2));
    app
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            '↓' => KeyCode::Down,
            '↑' => KeyCode::Up,
            c => KeyCode::Char(c),
        };
        assert_eq!(app.key(code, KeyModifiers::NONE), Flow::Continue, "{key:?}");
    }
}

fn screen(app: &App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(width.into());
    lines
        .map(|line| line.iter().map(ratatui::buffer::Cell::symbol).collect())
        .collect()
}

fn pids(app: &App) -> Vec<u32> {
    app.lines().iter().map(|p| p.now.owner.pid).collect()
}

#[test]
fn lines_show_who_holds_what_and_how_fast_it_moves() {
    let screen = screen(&app(), 140, 20);
    assert!(screen[0].contains("2 of 3 processes"), "{screen:#?}");
    assert!(screen[1].contains("GPU 5.0 GiB of 6.0 GiB"), "{screen:#?}");
    assert!(screen[1].contains("to GPU 1.5 GiB/s"), "{screen:#?}");
    let (big, small) = (&screen[3], &screen[4]);
    assert!(
        big.contains("████████████   4.0 GiB") && big.contains("1.5 GiB/s") && big.contains("big"),
        "{big}"
    );
    assert!(
        small.contains("██████······   1.0 GiB") && small.contains("python small.py"),
        "{small}"
    );
}

#[test]
fn keys_sort_filter_and_show_the_dead() {
    let mut app = app();
    assert_eq!(pids(&app), [2, 1]);
    press(&mut app, "r");
    assert_eq!(pids(&app), [1, 2]);
    press(&mut app, "rd");
    assert_eq!(pids(&app), [3, 2, 1]);
    press(&mut app, "ssss");
    assert_eq!(pids(&app), [1, 2, 3], "by pid");
    press(&mut app, "s");
    assert_eq!(pids(&app), [2, 3, 1], "by command");
    press(&mut app, "/PYz\x08");
    assert_eq!(pids(&app), [1]);
    assert!(screen(&app, 100, 20)[19].contains("filter: PY_"));
    // While typing, keys are letters.
    press(&mut app, "q");
    assert!(pids(&app).is_empty());
    assert!(screen(&app, 100, 20)[2].contains("No process matches \"PYq\""));
    press(&mut app, "\x1b");
    assert_eq!(pids(&app), [2, 3, 1]);
    assert_eq!(app.key(KeyCode::Char('q'), KeyModifiers::NONE), Flow::Quit);
    assert_eq!(
        app.key(KeyCode::Char('c'), KeyModifiers::CONTROL),
        Flow::Quit
    );
}

#[test]
fn the_selected_process_stays_selected_wherever_its_line_goes() {
    let mut app = app();
    press(&mut app, "↓");
    assert_eq!(app.selected(), 1);
    press(&mut app, "r");
    assert_eq!(app.selected(), 0, "the same process, first now");
    press(&mut app, "↓↓↓↑");
    assert_eq!(app.selected(), 0);
    app.update_only(Vec::new(), Duration::from_secs(1));
    assert_eq!(app.selected(), 0);
    press(&mut app, "↓\n");
    assert!(screen(&app, 80, 20)[2].contains("No process has run under vshare yet"));
}

#[test]
fn a_page_tells_of_one_process() {
    let mut app = app();
    press(&mut app, "\n");
    let page = app.page.as_mut().unwrap();
    assert_eq!(page.owner.pid, 2);
    for (ticket, bytes) in [(0, 5 << 20), (1, 7 << 20), (2, 1 << 20)] {
        page.add(Event {
            ticket,
            time_ns: 0,
            record: Record::Allocated {
                address: ticket,
                bytes,
                class: Class::Managed,
                stream: 0,
            },
        });
    }
    page.add(Event {
        ticket: 3,
        time_ns: 0,
        record: Record::Freed {
            address: 0,
            bytes: 0,
            class: Class::Managed,
            stream: 0,
        },
    });
    let text = screen(&app, 100, 30).join("\n");
    for part in [
        "GPU 4.0 GiB of a budget of 4.0 GiB",
        "to GPU 1.5 GiB/s",
        "7.0 MiB  0x1\n",
        "allocated 7.0 MiB at 0x1",
        "policy lru",
    ] {
        let squeezed: Vec<_> = text.lines().map(str::trim_end).collect();
        assert!(
            squeezed.join("\n").contains(part) || text.contains(part.trim()),
            "no {part:?} in\n{text}"
        );
    }
    assert!(!text.contains("5.0 MiB  0x0"), "freed since:\n{text}");
    press(&mut app, "?");
    assert!(
        screen(&app, 100, 30)
            .join("\n")
            .contains("choose a process")
    );
    press(&mut app, "x\x1b");
    assert!(app.page.is_none());
}

#[test]
fn a_terminal_that_is_too_small_is_told_so() {
    let app = app();
    let text = screen(&app, 40, 8).join("");
    assert!(text.contains("This terminal has 40 x 8"), "{text}");
    for (width, height) in [(1, 1), (59, 50), (200, 11), (60, 12), (61, 13), (400, 100)] {
        screen(&app, width, height);
    }
}

#[test]
fn numbers_and_texts_from_outside_do_no_harm() {
    let names = [
        "resident_bytes",
        "host_bytes",
        "budget_bytes",
        "promoted_bytes",
        "evicted_bytes",
        "stall_nanoseconds",
        "stalls",
        "live_bytes",
    ];
    let most = names.map(|name| (name, u64::MAX));
    let mut app = App::default();
    app.update_only(vec![process(1, "", &[])], Duration::ZERO);
    app.update_only(
        vec![
            process(1, "\x1b[2J\n\u{202e}x", &most),
            process(2, "y", &most),
        ],
        Duration::ZERO,
    );
    for keys in ["", "\n", "\x1b"] {
        press(&mut app, keys);
        for (width, height) in [(60, 12), (80, 24), (200, 60)] {
            assert!(!screen(&app, width, height).join("").contains('\x1b'));
        }
    }
}

#[test]
fn bars_and_sparks_are_as_wide_as_they_are_told() {
    for (value, whole) in [
        (0, 0),
        (0, 9),
        (1, 9),
        (9, 9),
        (u64::MAX, 1),
        (u64::MAX, u64::MAX),
        (1, u64::MAX),
    ] {
        assert_eq!(bar(value, whole, 7).chars().count(), 7);
    }
    assert_eq!(bar(1, 2, 3), "█▌·");
    assert_eq!(sparks([0, 1, 50, 100, 900].into_iter(), 100, 7), "   ▁▄██");
    assert_eq!(sparks([1, 2, 3].into_iter(), 0, 2), "▁▁");
}
