//! Generated traces: what programs that share a GPU do with memory, in its simplest forms.
//!
//! Times are such that work and link are as far apart as on an H200.

use super::write::Script;

type Pattern = fn(&mut Script);

const PATTERNS: [(&str, Pattern); 7] = [
    ("scan", scan),
    ("training", training),
    ("zipf", zipf),
    ("decode", decode),
    ("phases", phases),
    ("ragged", ragged),
    ("accumulation", accumulation),
];

pub(crate) fn names() -> [&'static str; PATTERNS.len()] {
    PATTERNS.map(|(name, _)| name)
}

/// A pattern's trace. `None`: there is no such pattern.
pub(crate) fn generate(name: &str, seed: u64) -> Option<Vec<u8>> {
    let (_, pattern) = PATTERNS.iter().find(|(known, _)| *known == name)?;
    let mut script = Script::new(seed);
    pattern(&mut script);
    Some(script.finish())
}

/// The same blocks over and over, in the same order: the worst case of what was used longest ago.
fn scan(script: &mut Script) {
    let blocks = script.allocs(256, 8);
    for _ in 0..12 {
        for &block in &blocks {
            script.work(1, 200, &[block]);
        }
    }
}

/// A network that is trained: weights and what an optimizer keeps of each.
struct Network {
    layers: Vec<Layer>,
}

struct Layer {
    weight: u32,
    moments: [u32; 2],
    gradient: Option<u32>,
}

impl Network {
    fn new(script: &mut Script, layers: usize) -> Self {
        let layer = |_| Layer {
            weight: script.alloc(8),
            moments: [script.alloc(8), script.alloc(8)],
            gradient: None,
        };
        Self {
            layers: (0..layers).map(layer).collect(),
        }
    }

    /// Forward and backward: what the layers keep is freed on the way back.
    fn pass(&mut self, script: &mut Script, input_pages: u64) {
        let mut input = script.alloc(input_pages);
        script.work(1, 20, &[input]);
        let mut kept = Vec::new();
        for layer in &self.layers {
            let inner = script.alloc(input_pages * 2);
            script.work(2, 150, &[input, layer.weight, inner]);
            let output = script.alloc(input_pages);
            script.work(3, 150, &[inner, layer.weight, output]);
            kept.push((input, inner));
            input = output;
        }
        let mut upper = script.alloc(input_pages);
        script.work(4, 30, &[input, upper]);
        script.free(input);
        for (layer, (input, inner)) in self.layers.iter_mut().zip(kept).rev() {
            let within = script.alloc(input_pages * 2);
            script.work(5, 200, &[upper, inner, layer.weight, within]);
            script.free(upper);
            let first = layer.gradient.is_none();
            let gradient = *layer.gradient.get_or_insert_with(|| script.alloc(8));
            script.work(if first { 6 } else { 7 }, 150, &[within, input, gradient]);
            script.free(inner);
            let lower = script.alloc(input_pages);
            script.work(8, 150, &[within, layer.weight, lower]);
            script.free(within);
            script.free(input);
            upper = lower;
        }
        script.free(upper);
    }

    fn optimize(&mut self, script: &mut Script) {
        for layer in &mut self.layers {
            let [first, second] = layer.moments;
            if let Some(gradient) = layer.gradient.take() {
                script.work(9, 20, &[layer.weight, first, second, gradient]);
                script.free(gradient);
            }
        }
        script.sync();
    }
}

fn training(script: &mut Script) {
    let mut network = Network::new(script, 24);
    for _ in 0..8 {
        network.pass(script, 16);
        network.optimize(script);
    }
}

/// Batches of which no two are of one size.
fn ragged(script: &mut Script) {
    let mut network = Network::new(script, 24);
    for _ in 0..12 {
        let pages = 6 + script.below(14);
        network.pass(script, pages);
        network.optimize(script);
    }
}

/// Four passes for each step of the optimizer: a loop within the step.
fn accumulation(script: &mut Script) {
    let mut network = Network::new(script, 24);
    for _ in 0..6 {
        for _ in 0..4 {
            network.pass(script, 12);
        }
        network.optimize(script);
    }
}

/// Some blocks are used far more often than others.
fn zipf(script: &mut Script) {
    let blocks: Vec<u32> = (0..400)
        .map(|_| {
            let pages = 1 + script.below(12);
            script.alloc(pages)
        })
        .collect();
    // The n-th has 1/n of the first one's share.
    let shares: Vec<u64> = (1..=400).map(|rank| 1_000_000 / rank).collect();
    let all: u64 = shares.iter().sum();
    for _ in 0..6000 {
        let mut pieces = Vec::new();
        for _ in 0..2 {
            let mut at = script.below(all);
            let found = blocks.iter().zip(&shares).find(|(_, share)| {
                let here = at < **share;
                at = at.saturating_sub(**share);
                here
            });
            pieces.extend(found.map(|(&block, _)| block));
        }
        let us = 50 + script.below(100);
        script.work(1, us, &pieces);
    }
}

/// Tokens one after the other: all weights for each, and a cache that grows until its request ends.
fn decode(script: &mut Script) {
    const LAYERS: usize = 48;
    let weights = script.allocs(LAYERS, 24);
    let mut caches: Vec<Vec<u32>> = vec![Vec::new(); LAYERS];
    for token in 0..64 {
        for (&weight, cache) in weights.iter().zip(&mut caches) {
            if token % 8 == 0 {
                cache.push(script.alloc(2));
            }
            let mut pieces = vec![weight];
            pieces.extend(&*cache);
            script.work(1, 15, &pieces);
        }
        script.sync();
        if token == 39 {
            for cache in &mut caches {
                cache.drain(..).for_each(|block| script.free(block));
            }
        }
    }
}

/// Two programs in one that take turns: each goes over its own several times, and some belongs to both.
fn phases(script: &mut Script) {
    let shared = script.allocs(16, 8);
    let sides = [script.allocs(96, 8), script.allocs(64, 12)];
    for turn in 0..12 {
        let Some(own) = sides.get(turn % 2) else {
            continue;
        };
        for _ in 0..4 {
            for (block, both) in own.iter().zip(shared.iter().cycle()) {
                script.work(1 + u32::from(turn % 2 == 1), 100, &[*block, *both]);
            }
        }
    }
}
