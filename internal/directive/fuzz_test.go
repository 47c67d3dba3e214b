package directive_test

import (
	"go/token"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/directive"
)

// The fuzz test proves that the parser returns a directive or problems for any text after
// "//flow:". All positions are inside the comment, and the values of a directive without problems
// are within the limits that the generator relies on.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"step", "step retries=5 backoff=exponential(200ms,30s) timeout=10s", "step key=order.ID nonidempotent",
		"workflow queue=a timeout=1h retention=168h", "package name=a register=B steps=C wire=", "step wire=a:b,c:d", "error name=a.b", "ignore rule reason",
		"machine", "step key=\"a b\" fatal=ErrX,*pkg.T", "step retries = 5", "step key='", "step backoff=linear(1s, 2s)", "step key=f(\"(\")",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "\n\r") {
			return // The text would end the comment.
		}
		c := comment("//flow:" + text)
		if p, ok := directive.NearMiss(c); ok && directive.Is(c) {
			t.Fatalf("%q is a directive and a near-miss: %v", c.Text, p)
		}
		if !directive.Is(c) {
			return
		}
		d, problems := directive.Parse(c)
		end := start + token.Pos(len(c.Text))
		for _, p := range problems {
			if p.Pos < start || p.Pos > end || p.What == "" || p.Fix == "" {
				t.Fatalf("%q: the problem %+v is outside %d..%d or says too little", c.Text, p, start, end)
			}
		}
		if len(problems) == 0 {
			withinLimits(t, c.Text, d, end)
		}
	})
}

func withinLimits(t *testing.T, text string, d directive.Directive, end token.Pos) {
	t.Helper()
	b := d.Backoff
	switch {
	case d.Retries < 0 || d.Retries+1 < 0, !(d.Jitter >= 0 && d.Jitter <= 1), d.Total < 0, d.Timeout < 0, d.Retention < 0, d.Children < 0:
		t.Fatalf("%q: a number is out of its limits: %+v", text, d)
	case b.Max > 0 && b.Max < b.Initial, b.Factor != 0 && !(b.Factor >= 1), b.Initial == 0 && b.Factor != 0:
		t.Fatalf("%q: the backoff makes no sense: %+v", text, b)
	case strings.ContainsAny(d.Name, "/# \t") || strings.Contains(d.Name, ".."):
		t.Fatalf("%q: %q would be a stored name", text, d.Name)
	case d.Key.Value != "" && (d.Key.Pos < start || d.Key.Pos > end):
		t.Fatalf("%q: the key is at %d, outside the comment", text, d.Key.Pos)
	}
	for _, id := range []string{d.As, d.Register, d.Steps} {
		if id != "" && !token.IsExported(id) {
			t.Fatalf("%q: %q would be a Go name", text, id)
		}
	}
	for _, ref := range d.Fatal {
		if !token.IsIdentifier(ref.Name) || ref.Qualifier != "" && !token.IsIdentifier(ref.Qualifier) {
			t.Fatalf("%q: %q would be an error", text, ref)
		}
	}
}
