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
#[rustfmt::skip]
const EPILOGUES: &[&str] = &[
    NO_EPILOGUE, "bias", "relu", "relu6", "sigmoid", "silu", "gelu", "residual_relu",
];
const CONCAT_EPILOGUES: &[&str] = &[NO_EPILOGUE, "batch_norm_relu"];
const MODES: &[&str] = &["nearest", "linear"];

/// Makes the table of operators. After a name stand the parameter that `--batchsize` sets, if there is one, the title, and
/// the parameters with their defaults: extents, counts (`from 0`), or a word `of` a list.
macro_rules! operators {
    (@default $value:tt) => { ParamDefault::Extent($value) };
    (@default $value:tt from 0) => { ParamDefault::Count($value) };
    (@default $value:tt of $words:ident) => { ParamDefault::Word($value, $words) };
    (@batch) => { None };
    (@batch $key:ident) => { Some(stringify!($key)) };
    ($($name:ident $(by $batch:ident)?: $title:literal,
        $($key:ident = $value:tt $($kind:ident $of:tt)?),+;)+) => {
        &[$(SimpleOperator {
            name: stringify!($name),
            title: $title,
            params: &[$((stringify!($key), operators!(@default $value $($kind $of)?))),+],
            batch: operators!(@batch $($batch)?),
        }),+]
    };
}

/// All single operators, in the order to show them.
pub const OPERATORS: &[SimpleOperator] = operators! {
    matmul: "A[m,k] B[k,n]",
        m = 512, n = 512, k = 512;
    dense by m: "X[m,k] W[n,k]^T, W a weight",
        m = 1, n = 1000, k = 2048, epilogue = NO_EPILOGUE of EPILOGUES;
    batch_matmul by b: "A[b,m,k] B[b,k,n]",
        b = 12, m = 128, n = 128, k = 64;
    matmul_matmul_add: "(A[m,k] B[k,n]) C[n,p] + D[m,p]",
        m = 256, n = 256, k = 256, p = 256;
    conv2d by n: "2-D convolution, NCHW",
        n = 1, c = 64, h = 56, w = 56, o = 64, kh = 3, kw = 3, stride = 1, pad = 1 from 0,
        dilation = 1, groups = 1, epilogue = NO_EPILOGUE of EPILOGUES;
    depthwise_conv2d by n: "one filter a channel, NCHW",
        n = 1, c = 96, h = 56, w = 56, kh = 3, kw = 3, stride = 1, pad = 1 from 0, dilation = 1,
        epilogue = NO_EPILOGUE of EPILOGUES;
    conv3d by n: "3-D convolution, NCDHW",
        n = 1, c = 64, d = 8, h = 28, w = 28, o = 64, kd = 3, kh = 3, kw = 3, stride = 1,
        pad = 1 from 0, dilation = 1, groups = 1, epilogue = NO_EPILOGUE of EPILOGUES;
    excitation by n: "squeeze-and-excitation's gate: X[n,c,h,w] times the sigmoid of a 1x1 convolution of S[n,s,1,1]",
        n = 1, c = 480, h = 14, w = 14, s = 20;
    max_pool2d by n: "maximum over windows, NCHW",
        n = 1, c = 64, h = 112, w = 112, kh = 3, kw = 3, stride = 2, pad = 1 from 0;
    avg_pool2d by n: "mean over windows, NCHW",
        n = 1, c = 64, h = 112, w = 112, kh = 3, kw = 3, stride = 2, pad = 1 from 0;
    global_avg_pool by n: "mean over the image, NCHW",
        n = 1, c = 512, h = 7, w = 7;
    transpose by a: "X[a,b,c,d] with its axes in another order",
        a = 1, b = 128, c = 12, d = 64, order = "0213" of ORDERS;
    concat by n: "images along their channels: one of c and others of `more`, NCHW",
        n = 1, c = 256, h = 14, w = 14, inputs = 2, more = 32,
        epilogue = NO_EPILOGUE of CONCAT_EPILOGUES;
    slice by n: "`size` channels from `begin` on, NCHW",
        n = 1, c = 116, h = 28, w = 28, begin = 0 from 0, size = 58;
    resize2d by n: "an image enlarged by a whole factor, NCHW",
        n = 1, c = 128, h = 13, w = 13, scale = 2, mode = "nearest" of MODES;
    gather by m: "m rows of a table[rows,n], a weight",
        m = 128, n = 768, rows = 30522;
    softmax by m: "over the last axis of X[m,n]",
        m = 128, n = 1024;
    layer_norm by m: "over the last axis of X[m,n], with scale and bias",
        m = 128, n = 768;
    elementwise by m: "one function of one or two X[m,n]",
        op = "add" of FUNCTIONS, m = 1024, n = 1024;
};
