package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/google/go-cmp/cmp"
)

func TestApply_ReplacesTheTextThatIsMeant(t *testing.T) {
	const source = "func a() {\n\tguard()\n}\n\nfunc b() {\n\tguard()\n}\n"
	for name, tt := range map[string]struct {
		m     Mutant
		want  string
		stale bool
	}{
		"behind another text": {Mutant{After: "func b()", Old: "guard()", New: "pass()"}, strings.Replace(source, "b() {\n\tguard", "b() {\n\tpass", 1), false},
		"the only one":        {Mutant{Old: "func a", New: "func c"}, strings.Replace(source, "func a", "func c", 1), false},
		"one of two":          {Mutant{Old: "guard()", New: "pass()"}, "", true},
		"none":                {Mutant{Old: "guards()", New: "pass()"}, "", true},
		"behind nothing":      {Mutant{After: "func d()", Old: "guard()", New: "pass()"}, "", true},
		"behind one of two":   {Mutant{After: "func ", Old: "guard()", New: "pass()"}, "", true},
		"none behind it":      {Mutant{After: "func b()", Old: "func a", New: "func c"}, "", true},
		"by itself":           {Mutant{Old: "func a", New: "func a"}, "", true},
	} {
		got, err := tt.m.Apply(source)
		if got != tt.want || errors.As(err, new(*StaleError)) != tt.stale {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func TestPattern_MatchesTheNamedTestsAlone(t *testing.T) {
	got := pattern([]string{"TestA", "TestB/a_case", "TestB/c.d/e"})
	want := `^TestA$|^TestB$/^a_case$|^TestB$/^c\.d$/^e$`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestJudge_TakesNothingForAKillButATestThatFails(t *testing.T) {
	failed := `{"Action":"fail","Test":"TestA/case"}` + "\n" + `{"Action":"fail","Test":"TestA"}` + "\n"
	for name, tt := range map[string]struct {
		output string
		ok     bool
		hangs  bool
		want   Verdict
		killer string
	}{
		"a test that fails":      {failed, false, false, Killed, "TestA/case"},
		"all pass":               {`{"Action":"pass","Test":"TestA"}` + "\n", true, false, Survived, ""},
		"it does not compile":    {`{"Action":"build-fail"}` + "\n", false, false, Broken, ""},
		"nor do its tests":       {`{"Action":"fail","FailedBuild":"x"}` + "\n", false, false, Broken, ""},
		"a script that is wrong": {`{"Action":"output","Test":"TestA","Output":"ERR Error compiling script (new function)"}` + "\n" + failed, false, false, Broken, ""},
		"it hangs":               {`{"Action":"output","Output":"panic: test timed out after 1s\n"}` + "\n" + failed, false, false, Hung, ""},
		"it hangs as it says":    {`{"Action":"output","Output":"panic: test timed out after 1s\n"}` + "\n" + failed, false, true, Killed, "TestA/case"},
		"the program died":       {"signal: killed\n", false, false, Broken, ""},
	} {
		var log testLog
		if err := log.read(strings.NewReader(tt.output)); err != nil {
			t.Fatal(err)
		}
		got, killer := judge(&Mutant{Hangs: tt.hangs}, &log, tt.ok)
		if got != tt.want || killer != tt.killer {
			t.Errorf("%s: got %s by %q, want %s by %q", name, got, killer, tt.want, tt.killer)
		}
	}
}

// module creates a module with a package, a test of the package, and all files that the mutants
// need.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/small\n\ngo 1.26\n",
		"small/small.go": "package small\n\nimport _ \"embed\"\n\n//go:embed text\nvar text string\n\n" +
			"func Even(n int) bool { return n%2 == 0 }\n\nfunc Text() string { return text }\n",
		"small/text": "guard\n",
		"small/small_test.go": "package small\n\nimport \"testing\"\n\n" +
			"func TestEven(t *testing.T) {\n\tif Even(1) {\n\t\tt.Error(\"1 is even\")\n\t}\n}\n\n" +
			"func TestText(t *testing.T) {\n\tif Text() != \"guard\\n\" {\n\t\tt.Error(Text())\n\t}\n}\n",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCampaign_TellsWhatBecameOfEachMutant(t *testing.T) {
	dir := module(t)
	var notes bytes.Buffer
	c := &campaign{root: dir, scratch: t.TempDir(), limit: time.Minute, notes: &notes}
	even := func(id, after string) Mutant {
		return Mutant{ID: id, File: "small/small.go", Old: "n%2 == 0", New: after, Package: "small", Tests: []string{"TestEven"}}
	}
	mutants := []Mutant{
		even("killed", "true"),
		even("survived", "n%4 == 0"),
		even("broken", "n%2 == zero"),
		{ID: "embedded", File: "small/text", Old: "guard", New: "gone", Package: "small", Tests: []string{"TestText"}},
		{ID: "stale", File: "small/small.go", Old: "n%3", New: "n", Package: "small", Tests: []string{"TestEven"}},
		{ID: "no test", File: "small/text", Old: "guard", New: "gone", Package: "small", Tests: []string{"TestOdd"}},
	}
	c.mutants = mutants
	if err := c.baseline(t.Context(), mutants); err != nil {
		t.Fatal(err)
	}
	got := map[string]Verdict{}
	for i := range mutants {
		r := c.try(t.Context(), &mutants[i])
		got[r.ID] = r.Verdict
	}
	want := map[string]Verdict{
		"killed": Killed, "survived": Survived, "broken": Broken, "embedded": Killed, "stale": Stale, "no test": Stale,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if got := notes.String(); !strings.Contains(got, "./small are compiled one by one") || !strings.Contains(got, "undefined: zero") {
		t.Errorf("whoever watches is told %q", got)
	}
	text, err := os.ReadFile(filepath.Join(dir, "small", "text"))
	if err != nil || string(text) != "guard\n" {
		t.Errorf("the tree was changed: %q, %v", text, err)
	}
}

func TestBundle_HoldsEachMutantBesideTheSource(t *testing.T) {
	depth.NeedFull(t)
	dir := module(t)
	even := func(id, before, after string) Mutant {
		return Mutant{ID: id, File: "small/small.go", Old: before, New: after, Package: "small", Tests: []string{"TestEven", "TestText"}}
	}
	mutants := []Mutant{
		even("killed", "n%2 == 0", "true"),
		even("survived", "n%2 == 0", "n%4 == 0"),
		even("text", "return text", `return ""`),
		even("outside", "//go:embed text", "//"),
	}
	c := &campaign{root: dir, scratch: t.TempDir(), limit: time.Minute, notes: t.Output(), mutants: mutants}
	if err := c.baseline(t.Context(), mutants); err != nil {
		t.Fatal(err)
	}
	b, err := c.bundleOf(t.Context(), "small")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]bool{"killed": true, "survived": true, "text": true}, b.holds); diff != "" {
		t.Errorf("mutants in the bundle (-want +got):\n%s", diff)
	}
	got := map[string]string{}
	for i := range mutants {
		r := c.try(t.Context(), &mutants[i])
		got[r.ID] = strings.TrimSpace(string(r.Verdict) + " " + r.Killer)
	}
	want := map[string]string{"killed": "killed TestEven", "survived": "survived", "text": "killed TestText", "outside": "killed TestText"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}

func TestBundled_CallsTheMutantWithAllThatTheFunctionIsGiven(t *testing.T) {
	const source = `package small

type box struct{}

func (b *box) sum(first int, rest ...int) (int, error) { return first + len(rest), nil }

func (b *box) reset() { *b = box{} }

func unnamed(_ int) int { return 1 }
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "small.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	text, pkg, held, err := bundled(dir, "small.go", []*Mutant{
		{ID: "a", Old: "first + len(rest)", New: "first"}, {ID: "b", Old: "len(rest)", New: "0"}, {ID: "c", Old: "*b = box{}", New: ""},
		{ID: "d", Old: "return 1", New: "return 2"}, {ID: "e", Old: "gone", New: ""},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `package small

type box struct{}

func (b *box) sum(first int, rest ...int) (int, error) {
	if mutantNow == "b" {
		return b.sumMutant1(first, rest...)
	}

	if mutantNow == "a" {
		return b.sumMutant0(first, rest...)
	}
 return first + len(rest), nil }

func (b *box) reset() {
	if mutantNow == "c" {
		b.resetMutant2()
		return
	}
 *b = box{} }

func unnamed(_ int) int { return 1 }

func (b *box) sumMutant0(first int, rest ...int) (int, error) { return first, nil }

func (b *box) sumMutant1(first int, rest ...int) (int, error) { return first + 0, nil }

func (b *box) resetMutant2() {  }
`
	if diff := cmp.Diff(want, text); diff != "" || pkg != "small" || !cmp.Equal(held, []string{"a", "b", "c"}) {
		t.Errorf("package %s with %q (-want +got):\n%s", pkg, held, diff)
	}
}

func TestCampaign_NeedsTestsThatPassUnmutated(t *testing.T) {
	dir := module(t)
	if err := os.WriteFile(filepath.Join(dir, "small", "text"), []byte("other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &campaign{root: dir, scratch: t.TempDir(), limit: time.Minute, notes: t.Output()}
	err := c.baseline(t.Context(), []Mutant{{Package: "small", Tests: []string{"TestText"}}})
	if err == nil || !strings.Contains(err.Error(), "TestText") {
		t.Errorf("got %v, want an error that names the test", err)
	}
}

func TestPage_ListsWhatWasTriedInTheOrderOfTheTable(t *testing.T) {
	table := []Mutant{
		{ID: "F1/memory/a", Disabled: "a is not compared"}, {ID: "F1/memory/b", Disabled: "b is not compared"}, {ID: "F1/memory/c", Disabled: "c is not compared"},
	}
	page := Page(table, []Result{{ID: "F1/memory/b", Verdict: Survived, Took: time.Second}, {ID: "F1/memory/a", Verdict: Killed, Killer: "TestA", Took: 2 * time.Second}})
	rows := "| `F1/memory/a` | a is not compared | killed | `TestA` | 2.0 |\n| `F1/memory/b` | b is not compared | survived | `` | 1.0 |\n"
	if !strings.HasSuffix(page, rows) || !strings.Contains(page, "\n2 of 3 mutants were tried, 1 of them killed.\n") {
		t.Errorf("the page ends with\n%s\nwant\n%s", page, rows)
	}
}

func TestRun_ListsAndHelpsAndRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		code int
		text string
	}{
		"help":        {[]string{"-help"}, 0, "usage:"},
		"list":        {[]string{"-list", "-run", "^F1/redis/commit-epoch$"}, 0, "commit.lua does not compare the epoch"},
		"no mutant":   {[]string{"-run", "^nothing$"}, exitUsage, "no mutant matches"},
		"no regexp":   {[]string{"-run", "("}, exitUsage, "read -run"},
		"an argument": {[]string{"F1"}, exitUsage, "unexpected argument"},
	} {
		var out bytes.Buffer
		if code := run(context.Background(), tt.args, &out, &out); code != tt.code || !strings.Contains(out.String(), tt.text) {
			t.Errorf("%s: got code %d and %q, want %d and %q", name, code, out.String(), tt.code, tt.text)
		}
	}
}
