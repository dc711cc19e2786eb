//! How `vshare top` looks.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Block, Cell, Clear, Gauge, Paragraph, Row, Sparkline, Table, TableState, Wrap,
};
use vshare_core::units::Human;

use super::app::{App, Process, Rates};
use super::page::Page;
use crate::events;
use crate::snapshot::Snapshot;
use crate::text::{Utc, printable};

/// What fits into less can be read by nobody.
const SMALLEST: (u16, u16) = (60, 12);

const GPU: Color = Color::Cyan;
const HOST: Color = Color::Yellow;
const STALL: Color = Color::Red;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = format!(
            "This terminal has {} x {} characters; vshare top needs {} x {}. Make it larger, or press q.",
            area.width, area.height, SMALLEST.0, SMALLEST.1
        );
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
        return;
    }
    match (&app.page, app.on_page()) {
        (Some(page), Some(process)) => draw_page(frame, area, page, process),
        (Some(page), None) => {
            let text = format!(
                "The segment of process {} has been removed. Esc goes back.",
                page.owner.pid
            );
            frame.render_widget(Paragraph::new(text), area);
        }
        (None, _) => draw_list(frame, area, app),
    }
    if app.help {
        draw_help(frame, area);
    }
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let [head, body, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(area);
    let lines = app.lines();
    frame.render_widget(Paragraph::new(totals(app, &lines)), head);
    if lines.is_empty() {
        frame.render_widget(Paragraph::new(nobody(app)).wrap(Wrap { trim: true }), body);
    } else {
        draw_table(frame, body, app, &lines);
    }
    frame.render_widget(Paragraph::new(footer(app)), foot);
}

fn totals(app: &App, lines: &[&Process]) -> Vec<Line<'static>> {
    let sum = |name: &str| {
        let values = lines.iter().map(|process| process.now.value(name));
        Human(values.fold(0, u64::saturating_add))
    };
    let rate = |of: fn(Rates) -> u64| {
        let rates = lines.iter().map(|process| of(process.rates()));
        Human(rates.fold(0, u64::saturating_add))
    };
    let unreadable = match app.unreadable {
        0 => String::new(),
        n => format!(", {n} that cannot be read"),
    };
    vec![
        Line::from(vec![
            "vshare top".bold(),
            Span::raw(format!(
                "  {} of {} processes{unreadable}",
                lines.len(),
                app.count()
            )),
        ]),
        Line::from(vec![
            Span::raw(format!(
                "GPU {} of {}",
                sum("resident_bytes"),
                sum("budget_bytes")
            ))
            .fg(GPU),
            Span::raw(format!("  host {}", sum("host_bytes"))).fg(HOST),
            Span::raw(format!(
                "  to GPU {}/s  to host {}/s",
                rate(|rates| rates.to_gpu),
                rate(|rates| rates.to_host)
            )),
        ]),
    ]
}

fn nobody(app: &App) -> String {
    match (app.count(), app.filter.is_empty()) {
        (0, _) => "No process has run under vshare yet: start one with `vshare run`.".to_owned(),
        (_, false) => format!("No process matches \"{}\". Esc shows all.", app.filter),
        (n, true) => format!("None of the {n} processes lives any more. Press d to see the dead."),
    }
}

fn footer(app: &App) -> Line<'static> {
    if app.typing {
        return Line::from(format!(
            "filter: {}_   (Enter keeps it, Esc drops it)",
            app.filter
        ));
    }
    let filter = match app.filter.is_empty() {
        true => String::new(),
        false => format!("  filter \"{}\"", app.filter),
    };
    let order = if app.reversed { " reversed" } else { "" };
    Line::from(format!(
        "by {}{order}{filter}   s sort  r reverse  / filter  d dead  Enter page  ? help  q quit",
        app.sort.name()
    ))
    .add_modifier(Modifier::DIM)
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, app: &App, lines: &[&Process]) {
    // What is left beside the numbers is for bars and for the command.
    let spare = usize::from(area.width.saturating_sub(78));
    let bar = (spare / 5).min(12);
    let widest_host = lines
        .iter()
        .map(|p| p.now.value("host_bytes"))
        .max()
        .unwrap_or(0);
    let fastest = lines
        .iter()
        .flat_map(|p| &p.history)
        .map(|r| both(*r))
        .max()
        .unwrap_or(0);
    let rows = lines.iter().map(|process| {
        let now = &process.now;
        let value = |name: &str| now.value(name);
        let resident = value("resident_bytes");
        let host = value("host_bytes");
        let rates = process.rates();
        let dim = match now.state() {
            "live" | "starting" => Style::new(),
            _ => Style::new().add_modifier(Modifier::DIM),
        };
        Row::new([
            Cell::new(format!("{:>7}", now.owner.pid)),
            Cell::new(now.state()),
            Cell::new(with_bar(resident, value("budget_bytes"), bar)).style(GPU),
            Cell::new(with_bar(host, widest_host, bar)).style(HOST),
            Cell::new(format!(
                "{}{:>10}/s",
                sparks(process.history.iter().map(|r| both(*r)), fastest, bar),
                Human(both(rates)).to_string()
            )),
            Cell::new(format!(
                "{}{:>4} %",
                sparks(process.history.iter().map(|r| r.stalled), 100, bar),
                rates.stalled.min(9999)
            ))
            .style(STALL),
            Cell::new(printable(&now.command)),
        ])
        .style(dim)
    });
    let with_bar = |number: u16| Constraint::Length(number + u16::try_from(bar).unwrap_or(0));
    let widths = [
        Constraint::Length(7),
        Constraint::Length(8),
        with_bar(11),
        with_bar(11),
        with_bar(12),
        with_bar(6),
        Constraint::Min(10),
    ];
    let head = Row::new([
        "    PID",
        "STATE",
        "GPU MEMORY",
        "HOST MEMORY",
        "TRANSFERS",
        "WAITS",
        "COMMAND",
    ])
    .style(Modifier::BOLD);
    let table = Table::new(rows, widths)
        .header(head)
        .row_highlight_style(Modifier::REVERSED);
    let mut state = TableState::default().with_selected(Some(app.selected()));
    frame.render_stateful_widget(table, area, &mut state);
}

fn both(rates: Rates) -> u64 {
    rates.to_gpu.saturating_add(rates.to_host)
}

/// A number with a bar of so many cells before it.
fn with_bar(value: u64, whole: u64, cells: usize) -> String {
    let number = Human(value).to_string();
    format!("{}{number:>10}", bar(value, whole, cells))
}

/// A bar of `cells` cells, filled in eighths by the share of `value` in `whole`.
fn bar(value: u64, whole: u64, cells: usize) -> String {
    const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = share(value, whole, cells * 8);
    let mut text: String = std::iter::repeat_n('█', eighths / 8).collect();
    if !eighths.is_multiple_of(8) {
        text.extend(PARTS.get(eighths % 8));
    }
    let used = text.chars().count();
    text.extend(std::iter::repeat_n('·', cells.saturating_sub(used)));
    text
}

/// The last values as little columns.
fn sparks(values: impl DoubleEndedIterator<Item = u64>, most: u64, cells: usize) -> String {
    const COLUMNS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut text: Vec<_> = values
        .rev()
        .take(cells)
        .map(|value| match (value, share(value, most, 8)) {
            (1.., 0) => '▁',
            (_, place) => COLUMNS.get(place).copied().unwrap_or('█'),
        })
        .collect();
    text.resize(cells, ' ');
    text.iter().rev().collect()
}

/// `value` of `whole`, in parts of `parts`, never more than all.
fn share(value: u64, whole: u64, parts: usize) -> usize {
    let share = u128::from(value) * parts as u128;
    let share = share.checked_div(u128::from(whole)).unwrap_or(0);
    usize::try_from(share).unwrap_or(parts).min(parts)
}

fn draw_page(frame: &mut Frame<'_>, area: Rect, page: &Page, process: &Process) {
    let now = &process.now;
    let [head, gauges, charts, tables, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(2),
        Constraint::Length(if area.height >= 24 { 5 } else { 3 }),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(about(now)), head);
    let [gpu, host] = Layout::vertical([Constraint::Length(1); 2]).areas(gauges);
    let value = |name: &str| now.value(name);
    let (resident, in_host, live) = (
        value("resident_bytes"),
        value("host_bytes"),
        value("live_bytes"),
    );
    let budget = value("budget_bytes");
    let text = format!("GPU {} of a budget of {}", Human(resident), Human(budget));
    frame.render_widget(gauge(resident, budget, text, GPU), gpu);
    let text = format!("host {} of {} in use", Human(in_host), Human(live));
    frame.render_widget(gauge(in_host, live.max(in_host), text, HOST), host);
    draw_charts(frame, charts, process);
    let [left, right] =
        Layout::horizontal([Constraint::Length(32), Constraint::Min(20)]).areas(tables);
    draw_largest(frame, left, page);
    draw_events(frame, right, page);
    let text = "Esc back  ? help  q quit";
    frame.render_widget(Paragraph::new(text).add_modifier(Modifier::DIM), foot);
}

fn about(now: &Snapshot) -> Vec<Line<'static>> {
    let device = now.device.as_ref().map_or_else(
        || "no GPU yet".to_owned(),
        |device| format!("GPU {} {}", device.ordinal, printable(&device.name)),
    );
    vec![
        Line::from(vec![
            format!("{} ", now.owner.pid).bold(),
            Span::raw(printable(&now.command)),
        ]),
        Line::from(format!(
            "{}, {device}, policy {}, waited {} times, {} over budget, {} refused, {} failures",
            now.state(),
            printable(&now.policy),
            now.value("stalls"),
            now.value("over_budget_launches"),
            now.value("oom_limit")
                .saturating_add(now.value("oom_driver")),
            now.value("driver_failures"),
        )),
    ]
}

fn gauge(value: u64, whole: u64, text: String, color: Color) -> Gauge<'static> {
    let percent = u16::try_from(share(value, whole, 100)).unwrap_or(100);
    Gauge::default()
        .percent(percent)
        .label(text)
        .gauge_style(Style::new().fg(color).bg(Color::DarkGray))
}

fn draw_charts(frame: &mut Frame<'_>, area: Rect, process: &Process) {
    let areas: [Rect; 3] = Layout::horizontal([Constraint::Fill(1); 3])
        .spacing(1)
        .areas(area);
    let rates = process.rates();
    type Of = fn(&Rates) -> u64;
    let charts: [(String, Color, Of, u64); 3] = [
        (
            format!("to GPU {}/s", Human(rates.to_gpu)),
            GPU,
            |r| r.to_gpu,
            1,
        ),
        (
            format!("to host {}/s", Human(rates.to_host)),
            HOST,
            |r| r.to_host,
            1,
        ),
        (
            format!("waits {} %", rates.stalled),
            STALL,
            |r| r.stalled,
            100,
        ),
    ];
    for ((title, color, of, least), area) in charts.into_iter().zip(areas) {
        let skipped = process.history.len().saturating_sub(area.width.into());
        let values: Vec<_> = process.history.iter().skip(skipped).map(of).collect();
        let most = values.iter().copied().max().unwrap_or(0).max(least);
        let chart = Sparkline::default()
            .block(Block::new().title(title))
            .max(most)
            .style(color)
            .data(values);
        frame.render_widget(chart, area);
    }
}

fn draw_largest(frame: &mut Frame<'_>, area: Rect, page: &Page) {
    let largest = page.largest();
    let lines: Vec<_> = match largest.is_empty() {
        true => vec![Line::from("none in the events seen").add_modifier(Modifier::DIM)],
        false => largest
            .iter()
            .map(|(bytes, address)| {
                Line::from(format!("{:>10}  {address:#x}", Human(*bytes).to_string()))
            })
            .collect(),
    };
    let block = Block::new().title("Largest allocations".bold());
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_events(frame: &mut Frame<'_>, area: Rect, page: &Page) {
    let title = match page.lost {
        0 => "Latest events".to_owned(),
        lost => format!("Latest events ({lost} were lost)"),
    };
    let lines: Vec<_> = page
        .events
        .iter()
        .rev()
        .take(area.height.into())
        .map(|event| {
            let time = Utc(page.created_ns.saturating_add(event.time_ns)).to_string();
            let time = time.get(11..23).unwrap_or_default().to_owned();
            Line::from(vec![
                time.dim(),
                Span::raw("  "),
                Span::raw(events::words(&event.record)),
            ])
        })
        .collect();
    let block = Block::new().title(title.bold());
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    const HELP: [&str; 11] = [
        "up, down, j, k   choose a process",
        "Enter            its page; Esc goes back",
        "s                sort by something else",
        "r                the other way round",
        "/                filter by pid or command",
        "d                show the dead, or not",
        "q, Ctrl-C        quit",
        "",
        "GPU MEMORY   what lies on the GPU, of the budget",
        "HOST MEMORY  what lies in host memory",
        "WAITS        share of the time spent waiting for moves",
    ];
    let (width, height) = (58, 13);
    let place = Rect {
        x: area.x + area.width.saturating_sub(width) / 2,
        y: area.y + area.height.saturating_sub(height) / 2,
        width: width.min(area.width),
        height: height.min(area.height),
    };
    frame.render_widget(Clear, place);
    let block = Block::bordered()
        .title("Keys")
        .title_alignment(Alignment::Center);
    let lines: Vec<_> = HELP.into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines).block(block), place);
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
