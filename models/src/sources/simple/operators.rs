//! The single operators: names, parameters in order, defaults.

/// One operator and its parameters.
#[derive(Debug, Clone, Copy)]
pub struct SimpleOperator {
    /// The name to write.
    pub name: &'static str,
    /// Its computation, in one line.
    pub title: &'static str,
    /// Parameters in the order to show them, with defaults.
    pub params: &'static [(&'static str, ParamDefault)],
    /// The parameter that `--batchsize` sets.
    pub batch: Option<&'static str>,
}

/// The default of a parameter, which also fixes its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamDefault {
    /// An extent: at least one.
    Extent(u64),
    /// A count that may be zero.
    Count(u64),
    /// One of several words.
    Word(&'static str, &'static [&'static str]),
}

/// The functions of `elementwise`.
pub const FUNCTIONS: &[&str] = &[
    "abs", "add", "div", "erf", "exp", "gelu", "max", "min", "mul", "neg", "relu", "sigmoid",
    "sqrt", "sub", "tanh",
];

/// The orders of four axes, but for the one that they have.
pub const ORDERS: &[&str] = &[
    "0132", "0213", "0231", "0312", "0321", "1023", "1032", "1203", "1230", "1302", "1320", "2013",
    "2031", "2103", "2130", "2301", "2310", "3012", "3021", "3102", "3120", "3201", "3210",
];

/// The epilogue of an operator that stands alone.
pub(super) const NO_EPILOGUE: &str = "none";

/// The computation on each result of a convolution or product, as models fuse it; all but the first add a bias before.
const EPILOGUE: (&str, ParamDefault) = (
    "epilogue",
    Word(
        NO_EPILOGUE,
        &[
            NO_EPILOGUE,
            "bias",
            "relu",
            "relu6",
            "sigmoid",
            "silu",
            "gelu",
            "residual_relu",
        ],
    ),
);

use ParamDefault::{Count, Extent, Word};

/// All single operators, in the order to show them.
pub const OPERATORS: &[SimpleOperator] = &[
    SimpleOperator {
        name: "matmul",
        title: "A[m,k] B[k,n]",
        params: &[("m", Extent(512)), ("n", Extent(512)), ("k", Extent(512))],
        batch: None,
    },
    SimpleOperator {
        name: "dense",
        title: "X[m,k] W[n,k]^T, W a weight",
        params: &[
            ("m", Extent(1)),
            ("n", Extent(1000)),
            ("k", Extent(2048)),
            EPILOGUE,
        ],
        batch: Some("m"),
    },
    SimpleOperator {
        name: "batch_matmul",
        title: "A[b,m,k] B[b,k,n]",
        params: &[
            ("b", Extent(12)),
            ("m", Extent(128)),
            ("n", Extent(128)),
            ("k", Extent(64)),
        ],
        batch: Some("b"),
    },
    SimpleOperator {
        name: "matmul_matmul_add",
        title: "(A[m,k] B[k,n]) C[n,p] + D[m,p]",
        params: &[
            ("m", Extent(256)),
            ("n", Extent(256)),
            ("k", Extent(256)),
            ("p", Extent(256)),
        ],
        batch: None,
    },
    SimpleOperator {
        name: "conv2d",
        title: "2-D convolution, NCHW",
        params: &[
            ("n", Extent(1)),
            ("c", Extent(64)),
            ("h", Extent(56)),
            ("w", Extent(56)),
            ("o", Extent(64)),
            ("kh", Extent(3)),
            ("kw", Extent(3)),
            ("stride", Extent(1)),
            ("pad", Count(1)),
            ("dilation", Extent(1)),
            ("groups", Extent(1)),
            EPILOGUE,
        ],
        batch: Some("n"),
    },
    SimpleOperator {
        name: "depthwise_conv2d",
        title: "one filter a channel, NCHW",
        params: &[
            ("n", Extent(1)),
            ("c", Extent(96)),
            ("h", Extent(56)),
            ("w", Extent(56)),
            ("kh", Extent(3)),
            ("kw", Extent(3)),
            ("stride", Extent(1)),
            ("pad", Count(1)),
            ("dilation", Extent(1)),
            EPILOGUE,
        ],
        batch: Some("n"),
    },
    SimpleOperator {
        name: "conv3d",
        title: "3-D convolution, NCDHW",
        params: &[
            ("n", Extent(1)),
            ("c", Extent(64)),
            ("d", Extent(8)),
            ("h", Extent(28)),
            ("w", Extent(28)),
            ("o", Extent(64)),
            ("kd", Extent(3)),
            ("kh", Extent(3)),
            ("kw", Extent(3)),
            ("stride", Extent(1)),
            ("pad", Count(1)),
            ("dilation", Extent(1)),
            ("groups", Extent(1)),
            EPILOGUE,
        ],
        batch: Some("n"),
    },
    SimpleOperator {
        name: "excitation",
        title: "squeeze-and-excitation's gate: X[n,c,h,w] times the sigmoid of a 1x1 convolution of S[n,s,1,1]",
        params: &[
            ("n", Extent(1)),
            ("c", Extent(480)),
            ("h", Extent(14)),
            ("w", Extent(14)),
            ("s", Extent(20)),
        ],
        batch: Some("n"),
    },
    SimpleOperator {
        name: "max_pool2d",
        title: "maximum over windows, NCHW",
        params: POOLING,
        batch: Some("n"),
    },
    SimpleOperator {
        name: "avg_pool2d",
        title: "mean over windows, NCHW",
        params: POOLING,
        batch: Some("n"),
    },
    SimpleOperator {
        name: "global_avg_pool",
        title: "mean over the image, NCHW",
        params: &[
            ("n", Extent(1)),
            ("c", Extent(512)),
            ("h", Extent(7)),
            ("w", Extent(7)),
        ],
        batch: Some("n"),
    },
    SimpleOperator {
        name: "transpose",
        title: "X[a,b,c,d] with its axes in another order",
        params: &[
            ("a", Extent(1)),
            ("b", Extent(128)),
            ("c", Extent(12)),
            ("d", Extent(64)),
            ("order", Word("0213", ORDERS)),
        ],
        batch: Some("a"),
    },
    SimpleOperator {
        name: "concat",
        title: "images along their channels: one of c and others of `more`, NCHW",
        params: &[
            ("n", Extent(1)),
            ("c", Extent(256)),
            ("h", Extent(14)),
            ("w", Extent(14)),
            ("inputs", Extent(2)),
            ("more", Extent(32)),
            (
                "epilogue",
                Word(NO_EPILOGUE, &[NO_EPILOGUE, "batch_norm_relu"]),
            ),
        ],
        batch: Some("n"),
    },
    SimpleOperator {
        name: "slice",
        title: "`size` channels from `begin` on, NCHW",
        params: &[
            ("n", Extent(1)),
            ("c", Extent(116)),
            ("h", Extent(28)),
            ("w", Extent(28)),
            ("begin", Count(0)),
            ("size", Extent(58)),
        ],
        batch: Some("n"),
    },
    SimpleOperator {
        name: "resize2d",
        title: "an image enlarged by a whole factor, NCHW",
        params: &[
            ("n", Extent(1)),
            ("c", Extent(128)),
            ("h", Extent(13)),
            ("w", Extent(13)),
            ("scale", Extent(2)),
            ("mode", Word("nearest", &["nearest", "linear"])),
        ],
        batch: Some("n"),
    },
    SimpleOperator {
        name: "gather",
        title: "m rows of a table[rows,n], a weight",
        params: &[
            ("m", Extent(128)),
            ("n", Extent(768)),
            ("rows", Extent(30522)),
        ],
        batch: Some("m"),
    },
    SimpleOperator {
        name: "softmax",
        title: "over the last axis of X[m,n]",
        params: &[("m", Extent(128)), ("n", Extent(1024))],
        batch: Some("m"),
    },
    SimpleOperator {
        name: "layer_norm",
        title: "over the last axis of X[m,n], with scale and bias",
        params: &[("m", Extent(128)), ("n", Extent(768))],
        batch: Some("m"),
    },
    SimpleOperator {
        name: "elementwise",
        title: "one function of one or two X[m,n]",
        params: &[
            ("op", Word("add", FUNCTIONS)),
            ("m", Extent(1024)),
            ("n", Extent(1024)),
        ],
        batch: Some("m"),
    },
];

/// Parameters of both pooling operators.
const POOLING: &[(&str, ParamDefault)] = &[
    ("n", Extent(1)),
    ("c", Extent(64)),
    ("h", Extent(112)),
    ("w", Extent(112)),
    ("kh", Extent(3)),
    ("kw", Extent(3)),
    ("stride", Extent(2)),
    ("pad", Count(1)),
];
