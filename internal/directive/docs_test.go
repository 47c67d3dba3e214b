package directive

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The test proves that the documentation page lists every word that the parser accepts.
func TestOptions_AreAllDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "use", "directives.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		if !strings.Contains(string(page), "## "+prefix+string(kind)) && !strings.Contains(string(page), " and "+prefix+string(kind)) {
			t.Errorf("docs/use/directives.md has no section on %s%s", prefix, kind)
		}
		for _, name := range append(kind.Options(), later[kind]...) {
			if !strings.Contains(string(page), "`"+name+"=") && !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/use/directives.md does not mention %s of %s%s", name, prefix, kind)
			}
		}
	}
}

// The test proves that no option is both executed and rejected as not available.
func TestOptions_AreNotAvailableAndLaterAtOnce(t *testing.T) {
	for kind, names := range later {
		for _, name := range names {
			for _, own := range kind.Options() {
				if name == own {
					t.Errorf("%s of %s%s is both available and not", name, prefix, kind)
				}
			}
		}
	}
}
