//! The list of models.

/// The models there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Trees over several estimates of the time.
    Ensemble,
    /// One XGBoost model of the time over arithmetic and traffic.
    Xgboost,
    /// Arithmetic and traffic against the best rates seen.
    Roofline,
    /// Ordinary least squares.
    Linear,
    /// Least squares with a squared penalty.
    Ridge,
    /// Least squares with an absolute penalty.
    Lasso,
    /// k nearest neighbours.
    Knn,
    /// Random forest.
    Forest,
    /// Support-vector regression.
    Svr,
}

impl ModelKind {
    /// All kinds of members.
    pub const ALL: [Self; 9] = [
        Self::Ensemble,
        Self::Xgboost,
        Self::Roofline,
        Self::Linear,
        Self::Ridge,
        Self::Lasso,
        Self::Knn,
        Self::Forest,
        Self::Svr,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ensemble => "ensemble",
            Self::Xgboost => "xgboost",
            Self::Roofline => "roofline",
            Self::Linear => "linear",
            Self::Ridge => "ridge",
            Self::Lasso => "lasso",
            Self::Knn => "knn",
            Self::Forest => "forest",
            Self::Svr => "svr",
        }
    }

    /// A short description.
    pub fn about(self) -> &'static str {
        match self {
            Self::Ensemble => "Trees over several estimates of the time",
            Self::Xgboost => "One XGBoost model of the time over arithmetic and traffic",
            Self::Roofline => "Arithmetic and traffic against the best rates seen",
            Self::Linear => "Ordinary least squares",
            Self::Ridge => "Least squares with an L2 penalty",
            Self::Lasso => "Least squares with an L1 penalty",
            Self::Knn => "k nearest neighbours",
            Self::Forest => "Random forest",
            Self::Svr => "Support-vector regression",
        }
    }
}
