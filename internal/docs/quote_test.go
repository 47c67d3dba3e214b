package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// pages returns the documentation pages by their path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "SECURITY.md")}
	for _, dir := range []string{"docs", "flowcheck/pages"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(name, ".md") {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]string{}
	for _, name := range names {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.ToSlash(rel)] = string(page)
	}
	return all
}

// block is a fenced block on a page.
type block struct {
	line int    // line of the opening fence
	info string // text after the fence
	text string
}

// blocks returns the fenced blocks of a page.
func blocks(page string) []block {
	var all []block
	var open *block
	for i, line := range strings.Split(page, "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && open == nil:
			open = &block{line: i + 1, info: fence}
		case isFence:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	return all
}

// quotes returns the difference between a block and the file that it names, or "" if the file
// contains the block. A line that contains only … matches any number of lines.
func quotes(b block, read func(name string) (string, error)) string {
	language, name, quoted := strings.Cut(b.info, " ")
	if !quoted || !slices.Contains([]string{"go", "yaml", "ini"}, language) {
		return ""
	}
	file, err := read(name)
	if err != nil {
		return err.Error()
	}
	rest := file
	for part := range strings.SplitSeq(b.text, "…\n") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		i := strings.Index("\n"+rest, "\n"+part)
		if i < 0 {
			return fmt.Sprintf("%s does not hold, in this order:\n%s", name, part)
		}
		rest = rest[min(i+len(part), len(rest)):]
	}
	return ""
}

func readFile(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	return string(b), err
}

func TestPages_QuoteCodeThatExists(t *testing.T) {
	quoted := 0
	for name, page := range pages(t) {
		for _, b := range blocks(page) {
			if strings.HasPrefix(b.info, "go ") {
				quoted++
			}
			if wrong := quotes(b, readFile); wrong != "" {
				t.Errorf("%s:%d: %s", name, b.line, wrong)
			}
		}
	}
	if quoted < 15 {
		t.Errorf("only %d blocks were compared with a file", quoted)
	}
}

func TestQuotes_NoticesEveryDifference(t *testing.T) {
	read := func(name string) (string, error) {
		if name != "a.go" {
			return "", os.ErrNotExist
		}
		return "package a\n\nfunc one() {\n\ttwo()\n\tthree()\n}\n", nil
	}
	for text, want := range map[string]bool{
		"func one() {\n\ttwo()\n":       true,
		"package a\n":                   true,
		"\ttwo()\n…\n}\n":               true,
		"\tthree()\n}\n":                true,
		"\ttwo() // twice\n":            false,
		"two()\n":                       false, // only part of a line
		"func one() {\n\tthree()\n":     false,
		"\tthree()\n…\n\ttwo()\n":       false, // in another order than in the file
		"package a\n\nfunc one() {\n\n": false,
	} {
		wrong := quotes(block{info: "go a.go", text: text}, read)
		if got := wrong == ""; got != want {
			t.Errorf("%q: found %v, want %v (%s)", text, got, want, wrong)
		}
	}
	for _, language := range []string{"go", "yaml", "ini"} {
		if quotes(block{info: language + " b.go", text: "x\n"}, read) == "" {
			t.Errorf("%s: a file that does not exist is not noticed", language)
		}
	}
	if wrong := quotes(block{info: "go", text: "free\n"}, read); wrong != "" {
		t.Errorf("a block without a file is compared: %s", wrong)
	}
}

func TestBlocks_AreFoundWithTheirLines(t *testing.T) {
	got := blocks("a\n```go x.go\nb\n\n```\nc\n```\nd\n```\n")
	want := []block{{2, "go x.go", "b\n\n"}, {7, "", "d\n"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
