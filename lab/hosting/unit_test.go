package hosting

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/install"
	"github.com/flowgen/flowgen/runtime/worker"
)

const unit = "../../docs/systemd/orders.service"

// verify returns what systemd-analyze verify reports about a unit. The executable of the unit is
// replaced by one that exists.
func verify(t *testing.T, text string) string {
	t.Helper()
	program, err := install.Program("systemd-analyze", map[string]string{"apt-get": "systemd", "dnf": "systemd", "pacman": "systemd"})
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "orders.service")
	text = regexp.MustCompile(`(?m)^ExecStart=.*$`).ReplaceAllString(text, "ExecStart="+executable)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "verify", file).CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return string(out)
}

func readUnit(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOPS7_SystemdAcceptsTheUnit proves that systemd-analyze verify has no objection to the unit, and
// that it does find mistakes.
func TestOPS7_SystemdAcceptsTheUnit(t *testing.T) {
	text := readUnit(t)
	if out := verify(t, text); out != "" {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	for right, wrong := range map[string]string{"WatchdogSec=30": "WatchdogSecs=30", "Type=notify": "Type=notified", "TimeoutStopSec=30": "TimeoutStopSec=soon", "Restart=always": "Restart=ever"} {
		if !strings.Contains(text, right) || verify(t, strings.Replace(text, right, wrong, 1)) == "" {
			t.Errorf("%q instead of %q is not found", wrong, right)
		}
	}
}

// TestOPS7_UnitFitsTheWorker proves that systemd waits for the stop of a worker with the default
// configuration, and that its watchdog has the bound of a stuck loop.
func TestOPS7_UnitFitsTheWorker(t *testing.T) {
	values := map[string]string{}
	for line := range strings.Lines(readUnit(t)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[key] = value
		}
	}
	seconds := func(key string) time.Duration {
		d, err := time.ParseDuration(values[key] + "s")
		if err != nil {
			t.Errorf("%s=%s: %v", key, values[key], err)
		}
		return d
	}
	const grace = 10 * time.Second // the default of worker.Config.Grace
	if got, want := seconds("TimeoutStopSec"), grace+20*time.Second; got < want {
		t.Errorf("systemd waits %v for the end of a worker, want %v", got, want)
	}
	if got := seconds("WatchdogSec"); got < worker.StuckAfter {
		t.Errorf("the watchdog waits %v, less than a stuck loop takes", got)
	}
	if values["Type"] != "notify" || values["TimeoutStartSec"] != "infinity" {
		t.Errorf("got %v", values)
	}
}
