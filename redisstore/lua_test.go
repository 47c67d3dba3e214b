package redisstore

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// scriptHeader matches the header with which each script must begin.
var scriptHeader = regexp.MustCompile(`(?s)^-- \w+ .*\n--\n-- KEYS  1 .*\n-- ARGV  .*\n--\n-- Returns .*\n--\n-- Atomic, because .*\n--\n-- Parts: [a-z_ ]+\n\n`)

func TestScripts_SayTheirContract(t *testing.T) {
	files, err := fs.Glob(sources, "lua/*.lua")
	if err != nil || len(files) != 39 {
		t.Fatalf("scripts: got %d, %v, want 39", len(files), err)
	}
	for _, file := range files {
		b, err := fs.ReadFile(sources, file)
		if err != nil {
			t.Fatal(err)
		}
		if !scriptHeader.Match(b) {
			t.Errorf("%s does not begin with KEYS, ARGV, Returns, Atomic and Parts", file)
		}
	}
}

// TestScripts_BuildKeysOfOnePartitionOnly proves that scripts build keys only in the slot of their
// declared keys, by using the hash tag of the first declared key.
func TestScripts_BuildKeysOfOnePartitionOnly(t *testing.T) {
	err := fs.WalkDir(sources, "lua", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(sources, file)
		if err != nil {
			return err
		}
		text := string(b)
		if strings.Contains(bare(text), " tag =") && !strings.Contains(text, "string.match(KEYS[1], '^[^}]+}%d*')") {
			t.Errorf("%s takes its tag from elsewhere than the first key", file)
		}
		for line := range strings.SplitSeq(bare(text), "\n") {
			if strings.Contains(line, "'{") && !strings.Contains(line, "local tag") {
				t.Errorf("%s names a hash tag: %s", file, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestKeys_OfScriptsAreThoseOfThePackage proves that the letters of keys are unique, and that the
// scripts use only letters that keys.go defines.
func TestKeys_OfScriptsAreThoseOfThePackage(t *testing.T) {
	p := newPartition("x", 0)
	known := map[string]bool{"y": true} // the copy of a log, which exists only during a script
	for _, key := range []string{
		p.meta("r"), p.log("r"), p.inbox("r"), p.stepData("r"), p.hidden("r"), p.extra("r"), p.audit("r"), p.seen("r"),
		p.sent("r"), p.bodies("r"), p.streams("r"), p.chunks("r", "n"), p.writers("r", "n"), p.latestOfChains(), p.held(), p.outbox(),
		p.ready("k"), p.blocked("k"), p.session("s"), p.owned("s"), p.unread("s"), p.line("w"), p.joined("r"),
		p.waiting("l"), p.kept("u"), p.limits(), p.limitConfigs(), p.limiterQueues(), p.fairKeys(), p.passes("f"),
		p.grouped("g"), p.labelled("l"), p.failureGroups(), p.recent(), p.idle(), p.failing(), p.entries(),
		p.routes(), p.wakes(), p.timers(), p.leases(), p.active(), p.latest(), p.openRuns("k", true), p.doneRuns("k", true, '0'), p.chains(), p.counter(), p.purges(), p.heard(),
		p.hints(), p.inboxSignal("s"), p.frames("r"), p.told("r"),
	} {
		rest, _ := strings.CutPrefix(key, p.tag)
		name, _, _ := strings.Cut(rest, ":")
		if known[name] {
			t.Errorf("two kinds of keys are called %q", name)
		}
		known[name] = true
	}
	names := regexp.MustCompile(`tag \.\. '(\w+):?'`)
	err := fs.WalkDir(sources, "lua", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(sources, file)
		for _, m := range names.FindAllStringSubmatch(string(b), -1) {
			if !known[m[1]] {
				t.Errorf("%s builds a key %q, which keys.go does not have", file, m[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestScripts_PassNumbersAsText proves that scripts pass numeric constants as text. The server
// needs more time to format a number than to execute most commands.
func TestScripts_PassNumbersAsText(t *testing.T) {
	number := regexp.MustCompile(`(?:redis\.p?call|intact)\([^()]*,\s*-?\d+\s*[,)]`)
	files, _ := fs.Glob(sources, "lua/*.lua")
	parts, _ := fs.Glob(sources, "lua/part/*.lua")
	for _, file := range append(files, parts...) {
		b, err := fs.ReadFile(sources, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range number.FindAllString(string(b), -1) {
			t.Errorf("%s: write numbers as text: %s", file, call)
		}
	}
}

func TestScripts_NameThePartsThatTheyUse(t *testing.T) {
	defined := regexp.MustCompile(`local function (\w+)`)
	parts, err := fs.Glob(sources, "lua/part/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	homes := map[string][]string{}
	for _, part := range parts {
		name := strings.TrimSuffix(strings.TrimPrefix(part, "lua/"), ".lua")
		for _, m := range defined.FindAllStringSubmatch(source(name), -1) {
			homes[m[1]] = append(homes[m[1]], strings.TrimPrefix(name, "part/"))
		}
	}
	called := regexp.MustCompile(`\b(\w+)\(`)
	files, _ := fs.Glob(sources, "lua/*.lua")
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "lua/"), ".lua")
		named := partsIn(source(name))
		for _, call := range called.FindAllStringSubmatch(newScript(name).ready().text, -1) {
			part := homes[call[1]]
			if len(part) > 0 && !slices.ContainsFunc(part, func(p string) bool { return slices.Contains(named, p) }) {
				t.Errorf("%s uses %s of part %s, and does not name it", file, call[1], part)
			}
		}
	}
}

// declared returns the names of the functions of a package, and the values of its string constants.
func declared(t *testing.T, files string) (functions, constants map[string]bool) {
	t.Helper()
	functions, constants = map[string]bool{}, map[string]bool{}
	names, err := filepath.Glob(files)
	if err != nil || len(names) == 0 {
		t.Fatalf("files %s: got %d, %v", files, len(names), err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				functions[n.Name.Name] = true
			case *ast.ValueSpec:
				for _, v := range n.Values {
					if text, ok := v.(*ast.BasicLit); ok && text.Kind == token.STRING {
						constants[strings.Trim(text.Value, `"`)] = true
					}
				}
			}
			return true
		})
	}
	return functions, constants
}

// TestScripts_MirrorFunctionsOfTheKernel proves that the functions of package protocol that the
// headers of scripts name exist.
func TestScripts_MirrorFunctionsOfTheKernel(t *testing.T) {
	functions, _ := declared(t, "../runtime/store/protocol/*.go")
	mirrors, named := regexp.MustCompile(`(?m)^-- It mirrors (.*) of package protocol\.$`), 0
	files, _ := fs.Glob(sources, "lua/*.lua")
	for _, file := range files {
		b, err := fs.ReadFile(sources, file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "mirrors") != mirrors.Match(b) {
			t.Errorf("%s mirrors something: want a line like %q", file, "It mirrors Commit of package protocol.")
		}
		for _, m := range mirrors.FindAllSubmatch(b, -1) {
			for _, name := range regexp.MustCompile(`, | and `).Split(string(m[1]), -1) {
				if named++; !functions[name] {
					t.Errorf("%s mirrors %s, which package protocol does not have", file, name)
				}
			}
		}
	}
	if named < 20 {
		t.Errorf("%d functions are named, want at least 20", named)
	}
}

// TestScripts_AnswerWithTheListedWords proves that scripts answer with the words that script.go
// lists, and that each of these occurs in a script.
func TestScripts_AnswerWithTheListedWords(t *testing.T) {
	_, words := declared(t, "script.go")
	answers := regexp.MustCompile(`(?:return|=) \{'([a-z ]+)'[,}]`)
	var all strings.Builder
	err := fs.WalkDir(sources, "lua", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(sources, file)
		all.Write(b)
		for _, m := range answers.FindAllSubmatch(b, -1) {
			if !words[string(m[1])] {
				t.Errorf("%s answers %q, which script.go does not list", file, m[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for word := range words {
		if !strings.Contains(all.String(), "'"+word+"'") {
			t.Errorf("no script answers %q, which script.go lists", word)
		}
	}
}

// partsIn returns the names of the parts that text includes, directly or indirectly.
func partsIn(text string) (named []string) {
	for line := range strings.Lines(text) {
		if operation, ok := strings.CutPrefix(strings.TrimSpace(line), "-- Operation: "); ok {
			named = append(named, partsIn(source(operation))...)
		}
		parts, _ := partsOf(strings.TrimSpace(line))
		for _, part := range parts {
			named = append(append(named, part), partsIn(source("part/"+part))...)
		}
	}
	return named
}

// bare returns Lua source without comments and without empty lines.
func bare(lua string) string {
	var b strings.Builder
	for line := range strings.Lines(lua) {
		if t := strings.TrimSpace(line); t != "" && !strings.HasPrefix(t, "--") {
			b.WriteString(line)
		}
	}
	return b.String()
}
