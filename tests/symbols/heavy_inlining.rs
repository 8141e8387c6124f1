// A Rust program with generics, traits, closures and formatting inlined into each other, for the tests of source lines.
use std::collections::{BTreeMap, HashMap};
#[derive(Clone, Debug)]
struct Item { name: String, price: f64, tags: Vec<String> }
trait Shape { fn area(&self) -> f64; }
struct Circle(f64); struct Rect(f64, f64);
impl Shape for Circle { fn area(&self) -> f64 { self.0 * self.0 * 3.14 } }
impl Shape for Rect { fn area(&self) -> f64 { self.0 * self.1 } }
fn generic<T: Clone + std::fmt::Debug>(v: &[T]) -> usize { v.iter().map(|x| format!("{:?}", x.clone()).len()).filter(|n| n % 2 == 0).sum() }
fn main() {
    let n = std::env::args().count() * 50;
    let mut m: HashMap<String, Vec<Item>> = HashMap::new();
    for i in 0..n { m.entry(format!("k{}", i % 7)).or_default().push(Item { name: i.to_string(), price: i as f64, tags: (0..i % 5).map(|j| format!("t{}", j)).collect() }); }
    let mut b: BTreeMap<usize, String> = BTreeMap::new();
    for (k, v) in &m { b.insert(generic(v), k.clone()); }
    let shapes: Vec<Box<dyn Shape>> = vec![Box::new(Circle(n as f64)), Box::new(Rect(1.0, 2.0))];
    let t: f64 = shapes.iter().map(|s| s.area()).sum();
    let mut words: Vec<String> = b.values().cloned().collect(); words.sort_by(|a, b| b.cmp(a)); words.dedup();
    println!("{} {} {:?}", t, words.join(","), m.get("k1").map(|v| v.iter().map(|i| i.price + i.tags.len() as f64 + i.name.len() as f64).sum::<f64>()));
}
