package flow

import "testing"

func TestOPS10_BuildOf_ReturnsTheBuildOfEachFormOfFingerprint(t *testing.T) {
	registry := &Registry{}
	named, plain := Fingerprint(registry, "v1.2"), Fingerprint(registry, "")
	tests := map[string]struct{ fingerprint, want string }{
		"configured name":   {named, "v1.2"},
		"long name":         {Fingerprint(registry, "release-2026-11-30"), "release-2026-11-30"},
		"no name":           {plain, plain[:buildLength]},
		"earlier release":   {"0123456789abcdef01234567", "0123456789ab"},
		"shorter than that": {"v1", "v1"},
	}
	for name, tt := range tests {
		if got := BuildOf(tt.fingerprint); got != tt.want {
			t.Errorf("%s: got build %q of %q, want %q", name, got, tt.fingerprint, tt.want)
		}
	}
	if named == Fingerprint(registry, "v1.3") {
		t.Error("two builds with different names have the same fingerprint")
	}
	for _, build := range []string{"", "v1.2"} {
		without, with := Fingerprint(registry, build), WithKeys(Fingerprint(registry, build), "k1")
		if BuildOf(with) != BuildOf(without) {
			t.Errorf("keys change the build %q to %q", BuildOf(without), BuildOf(with))
		}
		if with == without || with == WithKeys(without, "k1 k2") {
			t.Errorf("workers of build %q with different keys have the same fingerprint", build)
		}
	}
}
