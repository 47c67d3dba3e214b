package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The names of the files for mutants of scripts. Scripts are embedded in the program, and compiling
// and linking it takes ten times as long as the tests. Therefore all mutants of scripts share one
// program that reads the scripts from a directory. Each mutant is then a file in the directory.
const (
	scriptDir  = "redisstore/lua"
	scriptHost = "redisstore/script.go"
	scriptEnv  = "FLOWTEST_MUTANT_SCRIPTS"
)

// hosting contains the mutants with which the program reads the scripts from the directory.
var hosting = []Mutant{
	{ID: "scripts/import", File: scriptHost, Old: `"embed"`, New: "\"io/fs\"\n\t\"os\""},
	{
		ID: "scripts/embed", File: scriptHost, Old: "//go:embed lua/*.lua lua/part/*.lua\nvar sources embed.FS",
		New: `var sources = os.DirFS(os.Getenv("` + scriptEnv + `")).(fs.ReadFileFS)`,
	},
}

// isScript reports whether the mutant changes a Redis script.
func (m *Mutant) isScript() bool { return strings.HasPrefix(m.File, scriptDir+"/") }

// buildScripted builds a test program that reads the scripts from a directory. It does so only
// once.
func (c *campaign) buildScripted(ctx context.Context) error {
	if c.scripted != "" {
		return nil
	}
	file := filepath.Join(c.root, filepath.FromSlash(scriptHost))
	source, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the host of scripts: %w", err)
	}
	text := string(source)
	for i := range hosting {
		if text, err = hosting[i].Apply(text); err != nil {
			return err
		}
	}
	c.scripted, err = c.build(ctx, filepath.ToSlash(filepath.Dir(scriptHost)), map[string]string{scriptHost: text})
	return err
}

// testScript runs tests with the text mutated instead of the script of m.
func (c *campaign) testScript(ctx context.Context, m *Mutant, mutated string, tests []string) (*testLog, bool, error) {
	if err := c.buildScripted(ctx); err != nil {
		return nil, false, err
	}
	dir := filepath.Join(c.scratch, "scripts")
	lua := filepath.Join(dir, "lua")
	file := filepath.Join(lua, filepath.FromSlash(strings.TrimPrefix(m.File, scriptDir+"/")))
	if err := os.RemoveAll(dir); err != nil {
		return nil, false, fmt.Errorf("remove the scripts of the mutant before: %w", err)
	}
	if err := os.CopyFS(lua, os.DirFS(filepath.Join(c.root, filepath.FromSlash(scriptDir)))); err != nil {
		return nil, false, fmt.Errorf("copy scripts: %w", err)
	}
	if err := os.WriteFile(file, []byte(mutated), 0o600); err != nil {
		return nil, false, fmt.Errorf("write mutant %s: %w", m.ID, err)
	}
	return c.testProgram(ctx, c.scripted, m.Package, tests, scriptEnv+"="+dir)
}
