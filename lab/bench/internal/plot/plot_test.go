package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// elements parses an SVG document. It returns the number of elements of each kind, and the text.
func elements(t *testing.T, doc string) (map[string]int, string) {
	t.Helper()
	count, text := map[string]int{}, ""
	for d := xml.NewDecoder(strings.NewReader(doc)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return count, text
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, doc)
		}
		switch e := token.(type) {
		case xml.StartElement:
			count[e.Name.Local]++
		case xml.CharData:
			text += string(e)
		}
	}
}

func TestEncode_DrawsEachLineWithItsPointsAndName(t *testing.T) {
	c := Chart{Title: `a & <b> "c"`, X: "runs", Y: "us", Lines: []Line{
		{"wall", []Point{{10, 100}, {100, 90}, {1000, 95}}},
		{"server", []Point{{10, 0}, {100, 40}, {1000, 42}}}, // The first point is not positive.
		{"none", []Point{{10, 0}}},
	}}
	var out strings.Builder
	if err := c.Encode(&out); err != nil {
		t.Fatal(err)
	}
	count, text := elements(t, out.String())
	if count["path"] != 2 || count["circle"] != 3+2+2 {
		t.Errorf("got %d paths and %d circles, want 2 and 7", count["path"], count["circle"])
	}
	for _, want := range []string{`a & <b> "c"`, "wall", "server", "runs", "us", "1000"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if strings.Contains(out.String(), ">none<") {
		t.Error("the legend names a line that has no points")
	}
	if !strings.Contains(out.String(), "prefers-color-scheme: dark") {
		t.Error("there are no colors for a dark page")
	}
}

func TestEncode_OfNothingFails(t *testing.T) {
	c := Chart{Title: "empty", Lines: []Line{{"l", []Point{{0, 1}}}}}
	if err := c.Encode(io.Discard); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("got %v, want an error that names the chart", err)
	}
}

func TestAxis_PlacesValuesBetweenItsEnds(t *testing.T) {
	a := newAxis(0, 100)
	a.include(3)
	a.include(700)
	a.fit()
	if a.low != 2 || a.high != 1000 {
		t.Fatalf("got %v to %v, want 2 to 1000", a.low, a.high)
	}
	got := []float64{math.Round(a.place(2)), math.Round(a.place(1000))}
	if diff := cmp.Diff([]float64{0, 100}, got); diff != "" {
		t.Errorf("the ends are elsewhere (-want +got):\n%s", diff)
	}
	if ticks := a.ticks(); !slices.IsSorted(ticks) || len(ticks) < 2 {
		t.Errorf("got ticks %v", ticks)
	}
}

func TestSteps_EncloseTheValuesAndAreAtLeastTwo(t *testing.T) {
	for _, tt := range []struct {
		low, high float64
		want      []float64
	}{
		{1, 1, []float64{1, 2}},
		{3, 4, []float64{2, 5}},
		{10, 100, []float64{10, 20, 50, 100}},
		{0.3, 0.9, []float64{0.2, 0.5, 1}},
	} {
		if diff := cmp.Diff(tt.want, steps(tt.low, tt.high), cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })); diff != "" {
			t.Errorf("steps(%v, %v) (-want +got):\n%s", tt.low, tt.high, diff)
		}
	}
}

func TestLabel_IsBrief(t *testing.T) {
	for v, want := range map[float64]string{0.5: "0.5", 10: "10", 1000: "1000", 20_000: "20k", 5e6: "5M", 2e9: "2G"} {
		if got := label(v); got != want {
			t.Errorf("label(%v) = %q, want %q", v, got, want)
		}
	}
}
