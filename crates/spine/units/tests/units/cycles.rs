// SPDX-License-Identifier: GPL-2.0-or-later
//! How many files of a crate import each other in a circle. In a large circle no file can be read, tested or moved without
//! all others, so each crate has a bound.
//!
//! A file imports another if it uses something that is defined there; what a module only passes on (`pub use`) is followed
//! to its definition. Tests are left out, and so are what macros expand to and traits that are used by their methods alone.

use crate::workspace::{each_rust_file, folders};
use proc_macro2::{TokenStream, TokenTree};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};
use syn::{Attribute, Item, UseTree, visit::Visit};

/// Of a crate that is not listed below.
const BOUND: usize = 4;

/// A configuration that tables of its own check as a whole.
const BOUNDS: [(&str, usize); 1] = [("depot", 5)];

/// A module's path from the crate's root.
type ModulePath = Vec<String>;

/// What a file of a crate says, by module.
#[derive(Default)]
struct Module {
    file: String,
    /// What is defined here, modules among it.
    defined: BTreeSet<String>,
    /// What a name that is imported here stands for, as it is written.
    imported: BTreeMap<String, Vec<String>>,
    /// Modules of which all is imported.
    globs: Vec<Vec<String>>,
    /// All paths that are named here, also those of one name.
    named: BTreeSet<Vec<String>>,
}

struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

impl Crate {
    fn read(folder: &Path) -> Self {
        let mut read = Self { modules: BTreeMap::new() };
        each_rust_file(folder, &mut |path| {
            let file = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            let syntax = syn::parse_file(&fs::read_to_string(path).unwrap());
            let syntax = syntax.unwrap_or_else(|error| panic!("{file}: {error}"));
            let mut module: ModulePath =
                file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
                module.pop();
            }
            if !is_test(&syntax.attrs) && module.last().is_none_or(|last| !last.ends_with("tests"))
            {
                read.add(module, &file, &syntax.items);
            }
        });
        read
    }

    fn add(&mut self, path: ModulePath, file: &str, items: &[Item]) {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Use(item) => module.import(&item.tree, &mut Vec::new()),
                Item::Mod(item) => {
                    module.defined.insert(item.ident.to_string());
                    if let Some((_, inner)) = &item.content {
                        let inside = path.iter().cloned().chain([item.ident.to_string()]).collect();
                        self.add(inside, file, inner);
                    }
                }
                other => {
                    module.defined.extend(name(other));
                    module.visit_item(other);
                }
            }
        }
        self.modules.insert(path, module);
    }

    /// The module where a path that is named in a module leads to. `None`: out of the crate, or to a parameter.
    fn find(&self, at: &ModulePath, path: &[String], depth: usize) -> Option<&ModulePath> {
        let (first, rest) = path.split_first()?;
        let parent = || at.split_last().map(|(_, parent)| parent.to_vec());
        match first.as_str() {
            "crate" => self.find_in(&Vec::new(), rest, depth),
            "self" => self.find_in(at, rest, depth),
            "super" => {
                let (mut at, mut rest) = (parent()?, rest);
                while rest.first().is_some_and(|first| first == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
                self.find_in(&at, rest, depth)
            }
            _ => self.find_in(at, path, depth),
        }
    }

    /// The same for a path that begins in a module.
    fn find_in(&self, at: &ModulePath, path: &[String], depth: usize) -> Option<&ModulePath> {
        let (known, module) = self.modules.get_key_value(at)?;
        let Some((first, rest)) = path.split_first() else { return Some(known) };
        // Re-exports that lead round in a circle are no Rust.
        if depth > 16 {
            return None;
        }
        let inner: ModulePath = at.iter().cloned().chain([first.clone()]).collect();
        if self.modules.contains_key(&inner) {
            return self.find_in(&inner, rest, depth + 1);
        }
        if module.defined.contains(first) {
            return Some(known);
        }
        if let Some(target) = module.imported.get(first) {
            // `use lib::thing` names a crate unless this module has a part `lib`.
            let whole: Vec<String> = target.iter().chain(rest).cloned().collect();
            return (target.first() != Some(first)).then(|| self.find(at, &whole, depth + 1))?;
        }
        module.globs.iter().find_map(|glob| {
            let whole: Vec<String> = glob.iter().chain(path).cloned().collect();
            (glob.first() != Some(first)).then(|| self.find(at, &whole, depth + 1))?
        })
    }

    /// The files that each file imports.
    fn imports(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut imports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (path, module) in &self.modules {
            let from = imports.entry(&module.file).or_default();
            let found = module.named.iter().filter_map(|named| self.find(path, named, 0));
            let files = found.map(|found| self.modules[found].file.as_str());
            from.extend(files.filter(|file| *file != module.file));
        }
        imports
    }
}

impl Module {
    fn import(&mut self, tree: &UseTree, prefix: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.import(&path.tree, prefix);
                prefix.pop();
            }
            UseTree::Name(name) => self.import_as(&name.ident.to_string(), &name.ident, prefix),
            UseTree::Rename(both) => self.import_as(&both.rename.to_string(), &both.ident, prefix),
            UseTree::Glob(_) => self.globs.push(prefix.clone()),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, prefix));
            }
        }
    }

    fn import_as(&mut self, name: &str, ident: &syn::Ident, prefix: &[String]) {
        let own = (ident != "self").then(|| ident.to_string());
        let target: Vec<String> = prefix.iter().cloned().chain(own).collect();
        let name =
            if name == "self" { target.last().cloned().unwrap_or_default() } else { name.into() };
        self.imported.insert(name, target);
    }

    /// Paths in what a macro gets.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.name(std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.name(std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.name(path);
    }

    fn name(&mut self, path: Vec<String>) {
        if !path.is_empty() {
            self.named.insert(path);
        }
    }
}

impl Visit<'_> for Module {
    fn visit_path(&mut self, path: &syn::Path) {
        self.name(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    /// `pub(crate)` uses nothing.
    fn visit_visibility(&mut self, _: &syn::Visibility) {}

    fn visit_macro(&mut self, called: &syn::Macro) {
        self.visit_path(&called.path);
        self.tokens(called.tokens.clone());
    }

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        self.import(&item.tree, &mut Vec::new());
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// All that can be reached.
fn reached<'f>(from: &'f str, imports: &BTreeMap<&'f str, BTreeSet<&'f str>>) -> BTreeSet<&'f str> {
    let (mut found, mut waiting) = (BTreeSet::new(), vec![from]);
    while let Some(file) = waiting.pop() {
        for next in imports.get(file).into_iter().flatten() {
            if found.insert(*next) {
                waiting.push(next);
            }
        }
    }
    found
}

/// Files that import each other, the largest circle first.
fn cycles<'f>(imports: &BTreeMap<&'f str, BTreeSet<&'f str>>) -> Vec<BTreeSet<&'f str>> {
    let reached: BTreeMap<_, _> =
        imports.keys().map(|file| (*file, reached(file, imports))).collect();
    let circle = |file: &&'f str| -> BTreeSet<&'f str> {
        reached[file].iter().filter(|other| reached[**other].contains(file)).copied().collect()
    };
    let circles: BTreeSet<_> =
        imports.keys().map(circle).filter(|circle| circle.len() > 1).collect();
    let mut circles: Vec<_> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

#[test]
fn no_circle_of_imports_is_larger_than_its_bound() {
    let mut large = Vec::new();
    for (name, folder) in folders() {
        let listed = BOUNDS.iter().find(|(listed, _)| *listed == name);
        let bound = listed.map_or(BOUND, |(_, bound)| *bound);
        let read = Crate::read(&folder.join("src"));
        let largest = cycles(&read.imports()).into_iter().next().unwrap_or_default();
        if largest.len() > bound {
            large.push(format!("{name}: {} files, more than {bound}: {largest:?}", largest.len()));
        }
        assert!(listed.is_none() || largest.len() == bound, "{name}: only {}", largest.len());
    }
    assert!(large.is_empty(), "{}", large.join("\n"));
}

#[test]
fn circles_are_found_through_re_exports_and_macros() {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("lib.rs", "mod a; mod b; mod c; mod d; pub use b::B;");
    write("a.rs", "use crate::B; pub struct A(B); #[cfg(test)] mod tests { use crate::d::D; }");
    write("b/mod.rs", "mod inner; pub use inner::B;");
    write("b/inner.rs", "pub struct B; fn f() { println!(\"{}\", crate::c::C); }");
    write("c.rs", "use super::a; pub const C: usize = size_of::<a::A>();");
    write("d.rs", "use crate::a::A; pub struct D(A);");
    let read = Crate::read(folder.path());
    assert_eq!(cycles(&read.imports()), [BTreeSet::from(["a.rs", "b/inner.rs", "c.rs"])]);
}
