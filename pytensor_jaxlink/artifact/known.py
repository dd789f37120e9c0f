"""The names of PyTensor and NumPy that a file may lead to: other names somebody has to allow.

Of NumPy they are exceptions, which `CheckAndRaise` holds.
The Ops are those of ``docs/ops.md``, of all supported versions, but for `PdbBreakpoint`, which
would stop the process that loads the file.  A test compares them.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    """``"module:name"`` for each name after each module."""
    found, module = set(), ""
    for word in text.split():
        if word.endswith(":"):
            module = word
        else:
            found.add(module + word)
    return frozenset(found)


OPS = _names("""
pytensor.assumptions.specify: SpecifyAssumptions
pytensor.compile.builders: FinalizedOpFromGraph OpFromGraph SymbolicOp
pytensor.compile.debug.debugmode: OutputGuard
pytensor.compile.ops: DeepCopyOp FromFunctionOp TypeCastingOp ViewOp
pytensor.conditional.op: IfElse LazyIfElse
pytensor.gradient: DisconnectedGrad GradClip GradScale UndefinedGrad ZeroGrad
pytensor.ifelse: IfElse
pytensor.printing: Print
pytensor.raise_op: Assert CheckAndRaise
pytensor.scalar.basic: AND Abs Add Angle ArcCos ArcCosh ArcSin ArcSinh ArcTan ArcTan2 ArcTanh Cast
    Ceil Clip Complex Composite Conj Cos Cosh Deg2Rad EQ Exp Exp2 Expm1 Floor GE GT Identity Imag
    IntDiv Invert IsInf IsNan LE LT Log Log10 Log1p Log2 Maximum Minimum Mod Mul NEQ Neg OR Pow
    Rad2Deg Real Reciprocal RoundHalfAwayFromZero RoundHalfToEven ScalarInnerGraphOp Second Sign
    Sin Sinh Sqr Sqrt Sub Switch Tan Tanh TrueDiv Trunc XOR
pytensor.scalar.loop: ScalarLoop
pytensor.scalar.math: BetaInc BetaIncInv Erf Erfc Erfcinv Erfcx Erfinv Gamma GammaInc GammaIncC
    GammaIncCInv GammaIncInv GammaL GammaLn GammaU Grad2F1Loop Hyp2F1 I0 I1 Ive J0 J1 Jv Kve
    Log1mexp NdtriExp Owens_t PolyGamma Psi Sigmoid Softplus TriGamma
pytensor.scan.op: Scan
pytensor.sparse.basic: CSM CSMGrad CSMProperties Cast ColScaleCSC ConstructSparseFromList
    DenseFromSparse Diag EnsureSortedIndices GetItem2Lists GetItem2ListsGrad GetItem2d GetItemList
    GetItemListGrad GetItemScalar HStack Remove0 RowScaleCSC SparseFromDense Transpose VStack
pytensor.sparse.linalg: SparseBlockDiagonal
pytensor.sparse.math: AddSD AddSS AddSSData AddSparseDense AddSparseSparse AddSparseSparseData Dot
    EqualSD EqualSS EqualSparseDense EqualSparseSparse GreaterEqualSD GreaterEqualSS
    GreaterEqualSparseDense GreaterEqualSparseSparse GreaterThanSD GreaterThanSS
    GreaterThanSparseDense GreaterThanSparseSparse LessEqualSD LessEqualSS LessEqualSparseDense
    LessEqualSparseSparse LessThanSD LessThanSS LessThanSparseDense LessThanSparseSparse
    MultiplySparseDense MultiplySparseDenseVector MultiplySparseSparse NotEqualSD NotEqualSS
    NotEqualSparseDense NotEqualSparseSparse SamplingDot SpSum SparseDenseMultiply
    SparseDenseVectorMultiply SparseSparseMultiply StructuredAddSV StructuredAddSparseDenseVector
    StructuredDot StructuredDotGradCSC StructuredDotGradCSR TrueDot Usmm
pytensor.sparse.rewriting: AddSD_ccode AddSparseDenseC CSMGradC MulSDCSC MulSDCSR MulSVCSR
    SamplingDotCSR StructuredAddSVCSR StructuredAddSparseDenseVectorCSR StructuredDotCSC
    StructuredDotCSR UsmmCscDense
pytensor.tensor.basic: ARange Alloc AllocDiag AllocEmpty Choose ExtractDiag Eye Join MakeVector
    Nonzero PermuteRowElements ScalarFromTensor Split TensorFromScalar
pytensor.tensor.blas: BatchedDot Dot22 Dot22Scalar Gemm Gemv Ger
pytensor.tensor.blas.batched: BatchedDot
pytensor.tensor.blas.blas_c: CGemv
pytensor.tensor.blas.gemm: Dot22 Dot22Scalar Gemm
pytensor.tensor.blas.gemv: Gemv
pytensor.tensor.blas_c: CGemv CGer
pytensor.tensor.blockwise: Blockwise BlockwiseWithCoreShape OpWithCoreShape
pytensor.tensor.einsum: Einsum
pytensor.tensor.elemwise: CAReduce DimShuffle Elemwise
pytensor.tensor.extra_ops: Bartlett CpuContiguous CumOp FillDiagonal FillDiagonalOffset
    RavelMultiIndex Repeat SearchsortedOp Unique UnravelIndex
pytensor.tensor.fft: IRFFTOp RFFTOp
pytensor.tensor.fourier: Fourier
pytensor.tensor.linalg.constructors: BlockDiagonal
pytensor.tensor.linalg.decomposition.cholesky: Cholesky
pytensor.tensor.linalg.decomposition.eigen: Eig Eigh Eigvalsh
pytensor.tensor.linalg.decomposition.lu: LU LUFactor PivotToPermutations
pytensor.tensor.linalg.decomposition.qr: QR
pytensor.tensor.linalg.decomposition.schur: QZ Schur
pytensor.tensor.linalg.decomposition.svd: SVD
pytensor.tensor.linalg.inverse: MatrixInverse MatrixPinv TensorInv
pytensor.tensor.linalg.products: Expm KroneckerProduct
pytensor.tensor.linalg.solvers.general: Solve
pytensor.tensor.linalg.solvers.linear_control: SolveBilinearDiscreteLyapunov SolveDiscreteARE
    SolveSylvester TRSYL
pytensor.tensor.linalg.solvers.lstsq: Lstsq TensorSolve
pytensor.tensor.linalg.solvers.psd: CholeskySolve
pytensor.tensor.linalg.solvers.triangular: SolveTriangular
pytensor.tensor.linalg.solvers.tridiagonal: LUFactorTridiagonal SolveLUFactorTridiagonal
pytensor.tensor.linalg.summary: Det SLogDet
pytensor.tensor.math: All Any Argmax Dot FixedOpCAReduce Max MaxAndMinCAReduce Min MulWithoutZeros
    NonZeroDimsCAReduce Prod ProdWithoutZeros Sum
pytensor.tensor.optimize: MinimizeOp MinimizeScalarOp RootOp RootScalarOp
pytensor.tensor.pad: Pad
pytensor.tensor.random.basic: BernoulliRV BetaBinomialRV BetaRV BinomialRV CategoricalRV CauchyRV
    ChoiceWithoutReplacement DirichletRV ExponentialRV GammaRV GenGammaRV GeometricRV GumbelRV
    HalfCauchyRV HalfNormalRV HyperGeometricRV IntegersRV InvGammaRV LaplaceRV LogNormalRV
    LogisticRV MultinomialRV MvNormalRV NegBinomialRV NormalRV ParetoRV PermutationRV PoissonRV
    StudentTRV TriangularRV TruncExponentialRV UniformRV VonMisesRV WaldRV WeibullRV
pytensor.tensor.random.op: DefaultGeneratorMakerOp RandomVariable RandomVariableWithCoreShape
pytensor.tensor.reshape: JoinDims SplitDims
pytensor.tensor.rewriting.fused_elemwise: FusedElemwise
pytensor.tensor.rewriting.indexed_elemwise: IndexedElemwise
pytensor.tensor.rewriting.scalarize: ScalarCAReduce ScalarSubtensor ScalarizedElemwise
    ScalarizedJoin
pytensor.tensor.shape: Reshape Shape Shape_i SpecifyShape
pytensor.tensor.signal.conv: Convolve1d Convolve2d
pytensor.tensor.sort: ArgSortOp SortOp
pytensor.tensor.special: LogAddExp LogSoftmax LogSumExp Softmax XLog1PY XLogY
pytensor.tensor.subtensor: AdvancedIncSubtensor AdvancedIncSubtensor1 AdvancedSubtensor
    AdvancedSubtensor1 IncSubtensor Subtensor
pytensor.tensor.symbolic: FusibleSymbolicOp FusibleSymbolicOpDerivative TensorSymbolicOp
pytensor.tensor.type_other: MakeSlice
pytensor.typed_list.basic: Append Count Extend GetItem Index Insert Length MakeList Remove Reverse
pytensor.xtensor.basic: Rename TensorFromXTensor XTensorFromTensor XTypeCastOp
pytensor.xtensor.indexing: Index IndexUpdate
pytensor.xtensor.math: Dot
pytensor.xtensor.random.type: RNGToXRNG XRNGToRNG
pytensor.xtensor.reduction: XCumReduce XReduce
pytensor.xtensor.shape: Broadcast Concat ExpandDims Squeeze Stack Transpose UnStack
pytensor.xtensor.vectorization: XBlockwise XElemwise XRV
""")
"""Ops."""

OTHERS = _names("""
numpy.exceptions: AxisError DTypePromotionError TooHardError
numpy.linalg: LinAlgError
pytensor.assumptions.core: ConflictingAssumptionsError
pytensor.compile.sharedvalue: SharedVariable
pytensor.gradient: DisconnectedInputError DisconnectedType NullTypeGradError
pytensor.graph.null_type: NullType
pytensor.graph.utils: InconsistencyError MethodNotDefined MissingInputError
pytensor.link.c.type: Generic
pytensor.scalar.basic: ComplexError IntegerDivisionError ScalarType specific_out unary_out_lookup
pytensor.scalar.sharedvar: ScalarSharedVariable
pytensor.sparse.sharedvar: SparseTensorSharedVariable
pytensor.sparse.type: SparseTensorType
pytensor.tensor.exceptions: AdvancedIndexingError NotScalarConstantError ShapeError
pytensor.tensor.random.type: RandomGeneratorType
pytensor.tensor.random.variable: RandomGeneratorSharedVariable
pytensor.tensor.sharedvar: TensorSharedVariable
pytensor.tensor.type: TensorType
pytensor.tensor.type_other: NoneTypeT SliceType
pytensor.typed_list.type: TypedListType
pytensor.xtensor.random.type: XRandomGeneratorType
pytensor.xtensor.random.variable: XRandomGeneratorSharedVariable
pytensor.xtensor.type: XTensorSharedVariable XTensorType
""")
"""Types, shared variables, exceptions that Ops raise, and objects that Ops are made of."""

FUNCTIONS = _names("""
pytensor.scalar.basic: real_out same_out same_out_float_only same_out_min8 same_out_nobool
    Sign._output_types_preference upcast_out upcast_out_min8 upcast_out_no_complex upcast_out_nobool
    upgrade_to_float upgrade_to_float_no_complex
""")
"""Functions that choose the types of scalar Ops."""
