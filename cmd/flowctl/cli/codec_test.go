package cli_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/store/archive"
)

// TestOPS5_FlowctlCountsAndResealsByKey follows an operator who begins to encrypt a store: the data
// of ended runs are sealed with the new key, commands without the key show its name and the size of
// the data, and commands with the key show the data.
func TestOPS5_FlowctlCountsAndResealsByKey(t *testing.T) {
	s := open(t)
	s.wants(0, []string{"(not encrypted)", "4 runs"}, nil, "codec", "status")
	s.wants(1, nil, []string{"FLOWGEN_CODEC_KEYS_FILE"}, "codec", "reseal")

	keys := filepath.Join(t.TempDir(), "keys")
	for _, id := range []string{"k1", "k2"} {
		line := s.flowctl("codec", "new-key", id)
		if line.code != 0 || !strings.HasPrefix(line.stdout, id+" ") {
			t.Fatalf("new key: %+v", line)
		}
		before, _ := os.ReadFile(keys) // absent for the first key
		if err := os.WriteFile(keys, append([]byte(line.stdout), before...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.wants(2, nil, []string{"ID of a key"}, "codec", "new-key", "a key")
	t.Setenv("FLOWGEN_CODEC_KEYS_FILE", keys)
	s.wants(0, []string{"4 runs: 2 sealed again, 2 open"}, nil, "codec", "reseal")
	s.wants(0, []string{"4 runs: 0 sealed again, 2 open"}, nil, "codec", "reseal")
	s.wants(0, []string{"label of good"}, nil, "show", s.runs["good"])
	s.wants(0, []string{"carrier is"}, nil, "show", s.runs["bad"])
	s.wants(0, nil, nil, "fsck")
	if text := bodies(t, s.exported()); !strings.Contains(text, "shop.order") || strings.Contains(text, "label of good") || strings.Contains(text, "carrier is") {
		t.Errorf("an export with the keys contains open data: %.2000q", text)
	}

	var status struct {
		Runs int
		Keys []struct {
			Key        string
			Runs, Open int
		}
	}
	if err := os.Unsetenv("FLOWGEN_CODEC_KEYS_FILE"); err != nil { // it is restored at the end of the test
		t.Fatal(err)
	}
	g := s.flowctl("codec", "status", "--json")
	if err := json.Unmarshal([]byte(g.stdout), &status); err != nil || status.Runs != 4 || len(status.Keys) != 2 || status.Keys[1].Key != "k2" || status.Keys[1].Runs != 2 {
		t.Errorf("status: %v\n%s%s", err, g.stdout, g.stderr)
	}
	for _, run := range []string{"good", "bad"} {
		s.wants(0, []string{"sealed, key k2, 1"}, nil, "show", s.runs[run])
		s.wants(0, []string{`"flowgen.sealed"`, `"data": "`}, nil, "show", s.runs[run], "--json")
		if shown := s.flowctl("show", s.runs[run]); strings.Contains(shown.stdout, "label of") || strings.Contains(shown.stdout, "carrier is") || strings.Contains(shown.stdout, "at step") {
			t.Errorf("without a key: %s", shown.stdout)
		}
	}
	s.wants(4, nil, []string{"sealed, key k2, 15 B: set ClientConfig.Codec"}, "restart", s.runs["good"])
	s.wants(0, nil, nil, "fsck")
}

// bodies returns the data in all lines of an export.
func bodies(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := archive.NewReader(f)
	var all strings.Builder
	for err == nil {
		var l archive.Line
		if l, err = r.Next(); err == nil {
			all.Write(l.Body)
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return all.String()
}
