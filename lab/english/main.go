// Command english finds forbidden phrases in comments and forbidden words in the source.
//
//	go run ./lab/english               check the Go files that differ from the last commit but one
//	go run ./lab/english -since v0.1.0 check the Go files that differ from the revision
//	go run ./lab/english -all          check all files and count the findings
//
// For each finding it prints file:line:col, the phrase, and a suggestion. The exit status is 1 if
// there are findings.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	since := flag.String("since", "HEAD~1", "check the files that differ from this revision")
	all := flag.Bool("all", false, "check every Go file")
	flag.Parse()
	left, err := run(*since, *all)
	if err != nil {
		fmt.Fprintln(os.Stderr, "english:", err)
		os.Exit(2)
	}
	if left > 0 {
		fmt.Fprintf(os.Stderr, "%d findings\n", left)
		os.Exit(1)
	}
}

// run prints the findings in the files and returns their number.
func run(since string, all bool) (int, error) {
	files, err := changed(since)
	if all {
		files, err = every(".")
	}
	if err != nil {
		return 0, err
	}
	left := 0
	for _, file := range files {
		src, err := os.ReadFile(file)
		if os.IsNotExist(err) { // The file was removed after the revision.
			continue
		}
		if err != nil {
			return left, err
		}
		for _, f := range check(file, src) {
			fmt.Println(f)
			left++
		}
	}
	return left, nil
}

// changed returns the Go files that differ from the revision since.
func changed(since string) ([]string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command("git", "diff", "--name-only", "--relative", since, "--", "*.go")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files that differ from %s: %w: %s", since, err, strings.TrimSpace(stderr.String()))
	}
	files := strings.Fields(string(out))
	return slices.DeleteFunc(files, exempt), nil
}

// every returns all Go files in a directory and its subdirectories.
func every(root string) (files []string, err error) {
	err = filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(at, ".go") && !exempt(at) {
			files = append(files, at)
		}
		return err
	})
	return files, err
}

// exempt reports whether a file quotes the phrases on purpose or contains intentional mistakes.
func exempt(file string) bool {
	return strings.Contains(file, "lab/english/") || strings.Contains(file, "testdata/")
}

// finding is a forbidden phrase at a position.
type finding struct {
	pos token.Position
	phrase
	found string
}

// String returns the finding as one line of the report.
func (f finding) String() string { return fmt.Sprintf("%s: %q: %s", f.pos, f.found, f.advice) }

// check returns the findings in a file. Phrases are searched in comments, and words everywhere
// except in string literals of tests. check ignores a file that does not parse.
func check(name string, src []byte) (found []finding) {
	set := token.NewFileSet()
	file := set.AddFile(name, -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, func(token.Position, string) {}, scanner.ScanComments)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return found
		}
		if tok != token.COMMENT || strings.HasPrefix(lit, "//go:") {
			continue
		}
		for _, p := range phrases {
			for _, at := range p.pattern.FindAllStringIndex(lit, -1) {
				found = append(found, finding{set.Position(pos + token.Pos(at[0])), p, lit[at[0]:at[1]]})
			}
		}
	}
}

// phrase is a pattern that comments must not match, with an advice.
type phrase struct {
	pattern *regexp.Regexp
	advice  string
}

// phrases contains the patterns. A pattern is matched within a line without regard to case.
var phrases = []phrase{
	say(`(is|are) what`, "let the noun do something: not “X is what Y does” but “Y does X”"),
	say(`(is|are) to [a-z]+`, "write must, will, or the verb alone"),
	say(`(come|came|comes|wait|waits|queued|queues|begins?|starts?|ends?|late) behind`, "write after, for time"),
	say(`also if`, "write even if, or if … also"),
	say(`birth|born`, "write local start, or create claimed"),
	say(`heirs?`, "write continuation"),
	say(`kick|poke|bell|tell-tale`, "write notify"),
	say(`misfits?`, "write incompatible"),
	say(`conductors?`, "write scheduler"),
	say(`carr(y|ies|ied) over`, "write deliver"),
	say(`examinations?`, "write scan"),
	say(`flaws?`, "write defect"),
	say(`hubs?`, "write notifier"),
	say(`suspects?`, "write quarantined"),
	say(`lined up`, "write queued"),
	say(`mail`, "write items, or unread items"),
	say(`linger(s|ed|ing)?`, "write kept for"),
	say(`lends?|lent`, "write reuse"),
}

// say returns a phrase with a pattern that matches only whole words.
func say(pattern, advice string) phrase {
	return phrase{regexp.MustCompile(`(?i)\b(` + pattern + `)\b`), advice}
}
