package codec_test

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/store"
)

// writeKeys replaces a file of keys as an orchestrator does.
func writeKeys(t *testing.T, path string, lines ...string) {
	t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

func wantActive(t *testing.T, keys codec.KeyProvider, want string) {
	t.Helper()
	if k, err := keys.Active(t.Context()); err != nil || k.ID != want {
		t.Errorf("active key: got %v, %v, want key %s", k, err, want)
	}
}

func TestOPS5_AFileOfKeysIsReadAgainWhenItChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	k1, k2 := key("k1", 1), key("k2", 2)
	writeKeys(t, path, "# keys of orders", "", "  "+k1.Text()+"\r")
	synctest.Test(t, func(t *testing.T) {
		keys, err := codec.KeysFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c := newCodec(t, codec.Config{Keys: keys})
		old := seal(t, c, place, text(100))

		writeKeys(t, path, k1.Text(), k2.Text()) // first distribute the new key
		if k, err := keys.Key(t.Context(), "k2"); err != nil || k != k2 {
			t.Errorf("a key that was added: got %v, %v", k, err)
		}
		wantActive(t, keys, "k1")

		writeKeys(t, path, k2.Text(), k1.Text()) // then use it
		time.Sleep(time.Second)
		wantActive(t, keys, "k2")
		if info, err := codec.Inspect(seal(t, c, place, text(100))); err != nil || info.Key != "k2" {
			t.Errorf("sealed with key %s, %v, want k2", info.Key, err)
		}
		if _, err := c.Open(t.Context(), place, old); err != nil {
			t.Errorf("a payload of the old key: %v", err)
		}

		writeKeys(t, path, k2.Text())
		time.Sleep(time.Second)
		_, err = c.Open(t.Context(), place, old)
		if missing, ok := errors.AsType[*codec.KeyError](err); !ok || missing.Key != "k1" || !errors.Is(err, codec.ErrKeyNotFound) || !strings.Contains(err.Error(), path) {
			t.Errorf("a payload whose key was removed: %v, want a KeyError with the path", err)
		}
	})
}

func TestOPS5_AFileOfKeysThatBecomesInvalidIsReportedWithMissingKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	k1 := key("k1", 1)
	writeKeys(t, path, k1.Text())
	synctest.Test(t, func(t *testing.T) {
		keys, err := codec.KeysFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, content := range []string{"garbage", ""} {
			writeKeys(t, path, content)
			time.Sleep(time.Second)
			wantActive(t, keys, "k1")
			if _, err := keys.Key(t.Context(), "k2"); !errors.Is(err, codec.ErrKeyNotFound) || !strings.Contains(err.Error(), "want") {
				t.Errorf("%q: %v, want ErrKeyNotFound and the problem of the file", content, err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if _, err := keys.Key(t.Context(), "k2"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("removed: %v, want ErrNotExist", err)
		}
		wantActive(t, keys, "k1")
		k2 := key("k2", 2)
		writeKeys(t, path, k2.Text())
		time.Sleep(time.Second)
		wantActive(t, keys, "k2")
	})
}

func TestOPS5_AFileOfKeysThatOthersCanReadIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes")
	}
	path := filepath.Join(t.TempDir(), "keys")
	k1 := key("k1", 1)
	writeKeys(t, path, k1.Text())
	for mode, ok := range map[os.FileMode]bool{0o400: true, 0o600: true, 0o440: true, 0o644: false, 0o660: false, 0o604: false, 0o602: false, 0o601: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := codec.KeysFromFile(path); (err == nil) != ok || !ok && !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

func TestOPS5_AnInvalidFileOfKeysIsRefusedWithoutItsContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	k1 := key("k1", 1)
	good := k1.Text()
	secret := base64.StdEncoding.EncodeToString(k1.Secret[:])
	for name, tt := range map[string]struct {
		lines []string
		want  string
	}{
		"empty":          {nil, "has no key"},
		"only comments":  {[]string{"# none"}, "has no key"},
		"no space":       {[]string{good, secret}, ":2:"},
		"only a secret":  {[]string{"k2" + secret}, ":1:"},
		"swapped":        {[]string{secret + " k1"}, ":1:"},
		"short secret":   {[]string{"k1 " + secret[:40]}, "base64 of 32 bytes"},
		"long secret":    {[]string{"k1 " + secret + "AA=="}, "base64 of 32 bytes"},
		"URL form":       {[]string{"k1 " + strings.Repeat("_", 43) + "="}, "base64 of 32 bytes"},
		"invalid ID":     {[]string{"k/1 " + secret}, "ID of a key is invalid"},
		"twice":          {[]string{good, good}, "twice"},
		"zeros":          {[]string{"k1 " + base64.StdEncoding.EncodeToString(make([]byte, 32))}, "empty"},
		"three words":    {[]string{good + " " + secret}, "base64 of 32 bytes"},
		"too large":      {[]string{strings.Repeat("#\n", 1<<19) + good}, "more than"},
		"binary":         {[]string{"\x00\xff\xfe"}, ":1:"},
		"trailing quote": {[]string{`"` + good + `"`}, ":1:"},
	} {
		writeKeys(t, path, tt.lines...)
		_, err := codec.KeysFromFile(path)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), secret[:12]) {
			t.Errorf("%s: %v, want %q and the path, and no secret", name, err, tt.want)
		}
	}
	if _, err := codec.KeysFromFile(filepath.Dir(path)); err == nil {
		t.Error("a directory was accepted")
	}
}

func TestOPS5_KeysComeFromTheEnvironment(t *testing.T) {
	k1, k2 := key("k1", 1), key("k2", 2)
	path := filepath.Join(t.TempDir(), "keys")
	writeKeys(t, path, k2.Text(), k1.Text())
	for name, tt := range map[string]struct{ value, file, active, problem string }{
		"lines":         {value: k1.Text() + "\n" + k2.Text(), active: "k1"},
		"commas":        {value: k2.Text() + ", " + k1.Text(), active: "k2"},
		"semicolons":    {value: k2.Text() + ";" + k1.Text(), active: "k2"},
		"file":          {file: path, active: "k2"},
		"none":          {problem: "FLOWGEN_CODEC_KEYS is not set"},
		"both":          {value: k1.Text(), file: path, problem: "FLOWGEN_CODEC_KEYS_FILE are set"},
		"invalid":       {value: "k1", problem: "FLOWGEN_CODEC_KEYS is invalid"},
		"missing file":  {file: path + "2", problem: "FLOWGEN_CODEC_KEYS_FILE is"},
		"not of a file": {file: filepath.Dir(path), problem: "FLOWGEN_CODEC_KEYS_FILE is"},
	} {
		t.Setenv("FLOWGEN_CODEC_KEYS", tt.value)
		t.Setenv("FLOWGEN_CODEC_KEYS_FILE", tt.file)
		keys, err := codec.KeysFromEnv()
		if tt.problem != "" {
			if _, ok := errors.AsType[*store.VariableError](err); !ok || !strings.Contains(err.Error(), tt.problem) || keys != nil {
				t.Errorf("%s: got %v, %v, want a VariableError with %q", name, keys, err, tt.problem)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wantActive(t, keys, tt.active)
		for _, want := range []codec.Key{k1, k2} {
			if k, err := keys.Key(t.Context(), want.ID); err != nil || k != want {
				t.Errorf("%s: key %s: got %v, %v", name, want.ID, k, err)
			}
		}
	}
}
