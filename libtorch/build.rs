//! Compiles the part in C++ and lets the program find libtorch where it is, with no environment set.
//!
//! Without the feature `libtorch` there is nothing to do.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "libtorch")]
    libtorch();
}

#[cfg(feature = "libtorch")]
fn libtorch() {
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    println!("cargo:rerun-if-changed=src/program/kineto.cpp");
    let Ok(libtorch) = std::env::var("LIBTORCH") else {
        println!(
            "cargo::error=LIBTORCH names no folder of libtorch: build by scripts/setup --with torch"
        );
        return;
    };
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(false)
        .include(format!("{libtorch}/include"))
        .include(format!("{libtorch}/include/torch/csrc/api/include"))
        .file("src/program/kineto.cpp")
        .compile("kineto_events");
    println!("cargo:rustc-link-search=native={libtorch}/lib");
    for library in ["torch_cpu", "c10"] {
        println!("cargo:rustc-link-lib={library}");
    }
    println!("cargo:rustc-link-arg=-Wl,-rpath,{libtorch}/lib");
    // The libraries of NVIDIA that PyTorch's wheel asks for may be empty: nothing of them may be bound before it is called.
    println!("cargo:rustc-link-arg=-Wl,-z,lazy");
}
