package main

import (
	"math"
	"slices"
	"time"
)

// A series is what the rounds of one measurement gave, in order.
type series []float64

// quantile answers the value below which the share q of the series lies.
func (s series) quantile(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 == len(sorted) {
		return sorted[low]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

func (s series) min() float64    { return s.quantile(0) }
func (s series) median() float64 { return s.quantile(0.5) }
func (s series) p95() float64    { return s.quantile(0.95) }
func (s series) p99() float64    { return s.quantile(0.99) }

// over answers the ratios pair by pair: both series were measured in turns, so what disturbed one disturbed the other.
func (s series) over(peer series) series {
	var ratios series
	for i := range min(len(s), len(peer)) {
		ratios = append(ratios, s[i]/peer[i])
	}
	return ratios
}

func (s series) minus(base series) series {
	var rest series
	for i := range min(len(s), len(base)) {
		rest = append(rest, s[i]-base[i])
	}
	return rest
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }
