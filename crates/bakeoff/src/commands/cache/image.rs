//! `cache image list` and `cache image build`.

use anyhow::Result;
use base::arch::Arch;
use base::input::units::show_bytes;
use machine::cache::Cache;
use machine::cache::about::About;
use machine::image;
use machine::image::{Image, Request};
use serde_json::{Value, json};

use crate::cli::ImageCommand;
use crate::commands::{End, print_json, with_progress};
use crate::out;

/// Lists or builds images.
pub(super) fn run(command: &ImageCommand, json: bool) -> Result<End> {
    match command {
        ImageCommand::List => list(json),
        ImageCommand::Build {
            recipe,
            suite,
            arch,
            refresh,
        } => {
            let request = Request {
                recipe,
                suite: suite.as_deref(),
                refresh: *refresh,
            };
            build(request, arch.arch(), json)
        }
    }
}

fn list(json: bool) -> Result<End> {
    let built = image::list(&Cache::of_user()?);
    if json {
        let with_origin = |(image, about): &(Image, Option<About>)| {
            let mut json = image_json(image);
            json["about"] = json!(about);
            json
        };
        let built: Vec<_> = built.iter().map(with_origin).collect();
        print_json(&json!({ "recipes": image::recipes(), "built": built }))?;
        return Ok(End::Done);
    }
    out::line(&format!("recipes: {}", image::recipes().join(", ")));
    for (image, about) in &built {
        print_image(image);
        if let Some(about) = about {
            out::line(&format!("  from {}", about.line()));
        }
    }
    Ok(End::Done)
}

fn build(request: Request<'_>, arch: Arch, json: bool) -> Result<End> {
    let image = with_progress(json, |cache, task| {
        image::build(&cache.of_arch(arch), request, task)
    })?;
    if json {
        print_json(&image_json(&image))?;
    } else {
        print_image(&image);
    }
    Ok(End::Done)
}

fn image_json(image: &Image) -> Value {
    let Image {
        recipe,
        suite,
        path,
        manifest,
        sha256,
        bytes,
    } = image;
    json!({
        "recipe": recipe, "suite": suite, "path": path, "manifest": manifest, "sha256": sha256,
        "bytes": bytes,
    })
}

fn print_image(image: &Image) {
    out::line(&format!(
        "{} {:.12} {}\n  {}",
        image.title(),
        image.sha256,
        show_bytes(image.bytes),
        image.path.display()
    ));
}
