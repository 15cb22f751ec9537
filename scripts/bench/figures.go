package main

import (
	"fmt"
	"math"
)

// known is a figure that can be written: an empty series has none.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// figure writes three digits that matter, and no exponent.
func figure(v *float64) string {
	if v == nil {
		return ""
	}
	switch size := math.Abs(*v); {
	case *v == math.Trunc(*v) && size < 1e6, size >= 100:
		return fmt.Sprintf("%.0f", *v)
	case size >= 10:
		return fmt.Sprintf("%.1f", *v)
	case size >= 0.095:
		return fmt.Sprintf("%.2f", *v)
	default:
		return fmt.Sprintf("%.4f", *v)
	}
}
