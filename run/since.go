package run

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// mostDays is as far as --since looks back: a century is all of any log.
const mostDays = 36500

// since reads where a look back begins: a duration before now, in which days
// may stand first (7d, 1d12h), or a time: as RFC 3339 has it, or a date with or
// without an hour, local. The error is a *UsageError.
func (s *Session) since(text string) (time.Time, error) {
	if d, ok := longDuration(text); ok && d > 0 {
		return s.Now().Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage("--since=%s: a duration like 90m or 7d, or a time like 2026-01-31T18:00:00Z or 2026-01-31", show(text))
}

// longDuration is time.ParseDuration with days in front.
func longDuration(text string) (time.Duration, bool) {
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		days, rest = "0", text
	} else if rest == "" {
		rest = "0"
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil || n > mostDays {
		return 0, false
	}
	d, err := time.ParseDuration(rest)
	if err != nil || ok && d < 0 || d > mostDays*24*time.Hour {
		return 0, false
	}
	return time.Duration(n)*24*time.Hour + d, true
}

// logged is a number of seconds from the log, where it may be anything.
func logged(seconds float64) time.Duration {
	if math.IsNaN(seconds) || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, mostDays*24*3600) * float64(time.Second))
}

// span is a duration of which more than one figure matters: 0.25s, 4.2s, 1m40s,
// 12m.
func span(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return strconv.FormatFloat(max(d.Seconds(), 0.01), 'f', 2, 64) + "s"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d >= time.Minute && d < 10*time.Minute:
		return d.Truncate(time.Second).String()
	}
	return ago(d)
}
