package codec_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestOPS11_TheBlobStoreComesFromTheEnvironment proves that a directory is used if it exists, and that
// the error about any other value names the variable and the fix.
func TestOPS11_TheBlobStoreComesFromTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ value, problem string }{
		"a directory":     {value: "file://" + filepath.ToSlash(dir)},
		"none":            {},
		"no directory":    {value: "file://" + filepath.ToSlash(dir) + "/other", problem: "no such file"},
		"a file":          {value: "file://" + filepath.ToSlash(file), problem: "is not a directory"},
		"a path":          {value: dir, problem: "does not begin with file:///"},
		"of another host": {value: "file://host/blobs", problem: "does not begin with file:///"},
		"S3":              {value: "s3://bucket?region=us-east-1", problem: "--server"},
	} {
		t.Setenv("FLOWGEN_CODEC_BLOBS", tt.value)
		cfg, err := codec.ConfigFromEnv()
		if tt.problem != "" {
			_, ok := errors.AsType[*store.VariableError](err)
			if !ok || !strings.Contains(err.Error(), tt.problem) || !strings.Contains(err.Error(), "FLOWGEN_CODEC_BLOBS is") || cfg.Blobs != nil {
				t.Errorf("%s: got %v, %v, want a VariableError with %q", name, cfg, err, tt.problem)
			}
			continue
		}
		if err != nil || cfg.Keys != nil || (cfg.Blobs != nil) != (tt.value != "") {
			t.Errorf("%s: got %v, %v", name, cfg, err)
		}
	}
}
