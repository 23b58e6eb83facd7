package kernel

import "math"

// halves sums 16 lanes by halves.
func halves(l *[16]float32) float32 {
	for n := 8; n > 0; n /= 2 {
		for i := range n {
			l[i] += l[i+n]
		}
	}
	return l[0]
}

func sumSquares(x *float32, n int) float32 {
	var lanes [16]float32
	for i, v := range floatsAt(x, n) {
		lanes[i%16] = fma32(v, v, lanes[i%16])
	}
	return halves(&lanes)
}

// RMSNorm is dst = x / sqrt(mean(x^2) + eps) * w (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019). dst may be x.
// All have the same length, a multiple of 16.
func (s *Set) RMSNorm(dst, x, w []float32, eps float32) {
	mean := s.sumSquares(&x[0], len(x)) / float32(len(x))
	f := 1 / float32(math.Sqrt(float64(mean+eps)))
	s.normalize(&dst[:len(x)][0], &x[0], &w[:len(x)][0], len(x), f)
}

func normalize(dst, x, w *float32, n int, f float32) {
	d, ws := floatsAt(dst, n), floatsAt(w, n)
	for i, v := range floatsAt(x, n) {
		d[i] = float32(v*f) * ws[i]
	}
}

// Rope rotates the pairs (x[i], x[i+h]) by the angles whose cosines and sines are given, h = len(cos) = len(x)/2 (Su et al.,
// "RoFormer", 2021, with a pair's halves as far apart as in GPT-NeoX and Hugging Face's models).
func (s *Set) Rope(x, cos, sin []float32) {
	h := len(cos)
	a, b, sin := x[:h], x[h:2*h], sin[:h]
	even := h &^ 7
	if even > 0 {
		s.rope(&a[0], &b[0], &cos[0], &sin[0], even)
	}
	if even < h {
		rope(&a[even], &b[even], &cos[even], &sin[even], h-even)
	}
}

func rope(a, b, cos, sin *float32, n int) {
	as, bs, sins := floatsAt(a, n), floatsAt(b, n), floatsAt(sin, n)
	for i, c := range floatsAt(cos, n) {
		p, q := as[i], bs[i]
		as[i] = float32(p*c) - float32(q*sins[i])
		bs[i] = float32(q*c) + float32(p*sins[i])
	}
}

// SiLUMul is dst = gate * sigmoid(gate) * up.
func (s *Set) SiLUMul(dst, gate, up []float32) {
	n := len(dst)
	s.silu(&dst[0], &gate[:n][0], &up[:n][0], n)
}

// GELUMul is dst = gelu(gate) * up, with the tanh approximation of GELU: x * sigmoid(2y), y = sqrt(2/pi) * (x + 0.044715 x^3), which
// is the usual 0.5x * (1 + tanh y) without its cancellation (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016).
func (s *Set) GELUMul(dst, gate, up []float32) {
	n := len(dst)
	s.gelu(&dst[0], &gate[:n][0], &up[:n][0], n)
}

// Add is dst += src.
func (s *Set) Add(dst, src []float32) {
	n := len(dst)
	even := n &^ 7
	if even > 0 {
		s.add(&dst[0], &src[:n][0], even)
	}
	if even < n {
		add(&dst[even], &src[even:n][0], n-even)
	}
}

func add(dst, src *float32, n int) {
	d := floatsAt(dst, n)
	for i, v := range floatsAt(src, n) {
		d[i] += v
	}
}

// Scale is dst *= f.
func (s *Set) Scale(dst []float32, f float32) {
	even := len(dst) &^ 7
	if even > 0 {
		s.scale(&dst[0], &dst[0], even, f)
	}
	if even < len(dst) {
		scale(&dst[even], &dst[even], len(dst)-even, f)
	}
}

func scale(dst, src *float32, n int, f float32) {
	d := floatsAt(dst, n)
	for i, v := range floatsAt(src, n) {
		d[i] = v * f
	}
}

// The constants of Exp: log2(e), ln 2 in two parts, and the polynomial of the Cephes library's expf for |x| <= ln(2)/2.
const (
	log2e  = 1.44269504088896341
	ln2hi  = 0.693359375
	ln2lo  = -2.12194440e-4
	exp5   = 1.9875691500e-4
	exp4   = 1.3981999507e-3
	exp3   = 8.3334519073e-3
	exp2   = 4.1665795894e-2
	exp1   = 1.6666665459e-1
	exp0   = 5.0000001201e-1
	expMin = -87.33654 // below, the result is 0: it would not be a normal number
	expMax = 88.0      // above, the argument is taken as this
)

// Exp is e to the power of x, within 2 units in the last place (TestExp): x = n*ln2 + r, a polynomial in r, and n in the exponent.
func Exp(x float32) float32 {
	if x < expMin {
		return 0
	}
	x = min(x, expMax)
	n := float32(math.RoundToEven(float64(x * log2e)))
	r := fma32(n, -ln2hi, x)
	r = fma32(n, -ln2lo, r)
	p := float32(exp5)
	for _, c := range [...]float32{exp4, exp3, exp2, exp1, exp0} {
		p = fma32(p, r, c)
	}
	p = fma32(p, float32(r*r), r) + 1
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}

func siluMul(dst, gate, up *float32, n int) {
	d, u := floatsAt(dst, n), floatsAt(up, n)
	for i, g := range floatsAt(gate, n) {
		d[i] = float32(g/(1+Exp(-g))) * u[i]
	}
}

// The constants of GELU: 2*sqrt(2/pi) and the cubic term.
const (
	geluTwo   = 1.5957691216057308
	geluCubic = 0.044715
)

func geluMul(dst, gate, up *float32, n int) {
	d, u := floatsAt(dst, n), floatsAt(up, n)
	for i, g := range floatsAt(gate, n) {
		cube := float32(float32(g*g) * g)
		z := geluTwo * fma32(geluCubic, cube, g)
		d[i] = float32(g/(1+Exp(-z))) * u[i]
	}
}

func softmaxRow(s *float32, n, from, to int, scale float32) float32 {
	x := floatsAt(s, n)
	most := float32(math.Inf(-1))
	for _, v := range x[from:to] {
		most = max(most, v*scale)
	}
	var lanes [16]float32
	clear(x[:from])
	clear(x[to:])
	for i := from; i < to; i++ {
		x[i] = Exp(float32(x[i]*scale) - most)
		lanes[i%16] += x[i]
	}
	return halves(&lanes)
}
