package limits

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Figure is a measured number with its budget.
type Figure struct {
	Row     string   `json:"row"`
	Store   string   `json:"store"`
	What    string   `json:"what"`
	Value   float64  `json:"value"`
	Unit    string   `json:"unit,omitempty"`
	Budget  string   `json:"budget,omitempty"` // empty if the figure has no budget
	Verdict string   `json:"verdict,omitempty"`
	Beside  []Number `json:"beside,omitempty"` // numbers for comparison, such as results without limits

	budget budget
}

// Number is a number with a name and a unit.
type Number struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
}

// budget is the allowed range of a figure.
type budget struct {
	text        string
	least, most float64
}

func atLeast(n float64, unit string) budget {
	return budget{"≥ " + number(n, unit), n, math.Inf(1)}
}

func atMost(n float64, unit string) budget {
	return budget{"≤ " + number(n, unit), math.Inf(-1), n}
}

// The verdicts. Any other text is the reason why there is no verdict.
const (
	verdictMet    = "met"
	verdictMissed = "MISSED"
)

// judge compares a figure with its budget and sets the verdict, unless one is already set.
func (f *Figure) judge() {
	f.Budget = f.budget.text
	switch {
	case f.Verdict != "" || f.budget.text == "":
	case f.Value >= f.budget.least && f.Value <= f.budget.most:
		f.Verdict = verdictMet
	default:
		f.Verdict = verdictMissed
	}
}

// number formats n with its unit and at least three digits.
func number(n float64, unit string) string {
	digits := 0
	for a := math.Abs(n); a < 100 && digits < 2 && n != math.Trunc(n); a *= 10 {
		digits++
	}
	text := strconv.FormatFloat(n, 'f', digits, 64)
	if unit == "%" || unit == "x" {
		return text + " " + unit
	}
	whole, rest, dot := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if dot {
		whole += "." + rest
	}
	return strings.TrimSpace(whole + " " + unit)
}

// printer prints figures.
type printer struct {
	out  io.Writer
	json *json.Encoder // nil if the output is a Markdown table
	rows int
}

func newPrinter(out io.Writer, asJSON bool) *printer {
	p := &printer{out: out}
	if asJSON {
		p.json = json.NewEncoder(out)
	}
	return p
}

// tableHead contains the column names of the table.
const tableHead = "| row | what | figure | budget | | beside it |\n|---|---|---|---|---|---|"

func (p *printer) print(f Figure) error {
	if p.json != nil {
		return p.json.Encode(f)
	}
	if p.rows++; p.rows == 1 {
		if _, err := fmt.Fprintln(p.out, tableHead); err != nil {
			return err
		}
	}
	value := ""
	if f.Unit != "" {
		value = number(f.Value, f.Unit)
	}
	var beside []string
	for _, n := range f.Beside {
		beside = append(beside, n.Name+" "+number(n.Value, n.Unit))
	}
	_, err := fmt.Fprintf(p.out, "| `%s` | %s | %s | %s | %s | %s |\n", f.Row, f.What, value, f.Budget, f.Verdict, strings.Join(beside, "; "))
	return err
}

// quantile returns the smallest value that is at least as large as the fraction q of all values, in
// milliseconds. It returns 0 if all is empty. It sorts all.
func quantile(all []time.Duration, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	i := int(math.Ceil(float64(len(all))*q)) - 1
	return float64(all[min(max(i, 0), len(all)-1)]) / float64(time.Millisecond)
}

// median returns the median of all, or 0 if all is empty. It sorts all.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	half := len(all) / 2
	if len(all)%2 == 0 {
		return (all[half-1] + all[half]) / 2
	}
	return all[half]
}
