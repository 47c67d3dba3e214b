package jwtauth_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/jwtauth"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// issuer is an issuer of tokens. It has keys and a server that publishes their public parts.
type issuer struct {
	*testing.T
	*httptest.Server

	mu    sync.Mutex
	away  bool
	asked int
	keys  jose.JSONWebKeySet
	now   time.Time
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{T: t, now: time.Now()}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.asked++; i.away {
			w.WriteHeader(http.StatusServiceUnavailable) // an error response, whose body contains keys that must be ignored
		}
		_ = json.NewEncoder(w).Encode(i.keys)
	}))
	t.Cleanup(i.Close)
	return i
}

// change calls f, which changes the behavior of the issuer.
func (i *issuer) change(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
}

func (i *issuer) clock() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.now
}

// pass advances the clock.
func (i *issuer) pass(d time.Duration) { i.change(func() { i.now = i.now.Add(d) }) }

// rsaKey creates a key that the issuer does not publish. publish adds the public part of a key to
// the published keys.
func (i *issuer) rsaKey() *rsa.PrivateKey {
	i.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		i.Fatal(err)
	}
	return key
}

func (i *issuer) publish(id string, key crypto.PublicKey) {
	i.change(func() { i.keys.Keys = append(i.keys.Keys, jose.JSONWebKey{Key: key, KeyID: id, Use: "sig"}) })
}

type claims map[string]any

// claims returns the claims of a valid token with some claims changed.
func (i *issuer) claims(change claims) claims {
	c := claims{
		"iss": "https://issuer.example.com", "aud": "flowgen", "sub": "ada", "exp": i.clock().Add(time.Hour).Unix(), "iat": i.clock().Unix(), "roles": []string{"viewer", "operator"}, "team": "a",
	}
	for name, value := range change {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

// sign returns a signed token.
func (i *issuer) sign(alg jose.SignatureAlgorithm, key any, id string, c claims) string {
	i.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		i.Fatal(err)
	}
	b, err := json.Marshal(c)
	if err != nil {
		i.Fatal(err)
	}
	signed, err := signer.Sign(b)
	if err != nil {
		i.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		i.Fatal(err)
	}
	return text
}

// unsigned returns a token with the given header and signature, which need not be valid.
func unsigned(header string, c claims, signature string) string {
	b, _ := json.Marshal(c)
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(header)) + "." + enc.EncodeToString(b) + "." + signature
}

// config returns the configuration of an authenticator for tokens of the issuer.
func (i *issuer) config() jwtauth.Config {
	return jwtauth.Config{Issuer: "https://issuer.example.com", Audience: "flowgen", JWKS: i.URL, Now: i.clock}
}

// serve returns a function that sends a request with a token to the API. The request lists runs if
// the method is GET, and starts a run if it is POST.
func (i *issuer) serve(cfg jwtauth.Config) func(method, token string) (status int, problem admin.Problem) {
	i.Helper()
	auth, err := jwtauth.New(cfg)
	if err != nil {
		i.Fatal(err)
	}
	st := memstore.New()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	server := httptest.NewServer(api.New(admin.New(client), api.Config{Auth: auth}))
	i.Cleanup(func() {
		server.Close()
		_, _ = client.Close(), st.Close()
	})
	return func(method, token string) (int, admin.Problem) {
		i.Helper()
		body := ""
		if method == http.MethodPost {
			body = `{"workflow":"w"}`
		}
		r, err := http.NewRequestWithContext(i.Context(), method, server.URL+"/v1/runs", strings.NewReader(body))
		if err != nil {
			i.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := server.Client().Do(r)
		if err != nil {
			i.Fatal(err)
		}
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		if err != nil {
			i.Fatal(err)
		}
		var p admin.Problem
		_ = json.Unmarshal(b, &p)
		return answer.StatusCode, p
	}
}

// wants reports an error if the status differs.
func (i *issuer) wants(what string, status int, p admin.Problem, want int) {
	i.Helper()
	if status != want {
		i.Errorf("%s: got %d %s, want %d", what, status, p.Detail, want)
	}
}

func TestOPS3_OnlyGoodTokensOfTheIssuerAreAccepted(t *testing.T) {
	i := newIssuer(t)
	key, stranger := i.rsaKey(), i.rsaKey()
	elliptic256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.publish("one", key.Public())
	i.publish("two", elliptic256.Public())
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	ask := i.serve(i.config())
	now := i.clock()
	good := i.sign(jose.RS256, key, "one", i.claims(nil))
	parts := strings.Split(good, ".")
	for what, token := range map[string]string{
		"RS256":                  good,
		"ES256":                  i.sign(jose.ES256, elliptic256, "two", i.claims(nil)),
		"without a name of keys": i.sign(jose.RS256, key, "", i.claims(nil)),
		"one of two audiences":   i.sign(jose.RS256, key, "one", i.claims(claims{"aud": []string{"other", "flowgen"}})),
		"expired within skew":    i.sign(jose.RS256, key, "one", i.claims(claims{"exp": now.Add(-59 * time.Second).Unix()})),
		"begins within skew":     i.sign(jose.RS256, key, "one", i.claims(claims{"nbf": now.Add(59 * time.Second).Unix()})),
	} {
		status, p := ask(http.MethodGet, token)
		i.wants(what, status, p, http.StatusOK)
	}
	for what, token := range map[string]string{
		"none":                        "",
		"no JWT":                      "fg_token",
		"expired":                     i.sign(jose.RS256, key, "one", i.claims(claims{"exp": now.Add(-61 * time.Second).Unix()})),
		"not valid yet":               i.sign(jose.RS256, key, "one", i.claims(claims{"nbf": now.Add(62 * time.Second).Unix()})),
		"issued in the future":        i.sign(jose.RS256, key, "one", i.claims(claims{"iat": now.Add(62 * time.Second).Unix()})),
		"without an end":              i.sign(jose.RS256, key, "one", i.claims(claims{"exp": nil})),
		"an end before all times":     i.sign(jose.RS256, key, "one", i.claims(claims{"nbf": -1})),
		"an end that is text":         i.sign(jose.RS256, key, "one", i.claims(claims{"exp": "tomorrow"})),
		"an end beyond all times":     i.sign(jose.RS256, key, "one", i.claims(claims{"exp": 1e300})),
		"foreign audience":            i.sign(jose.RS256, key, "one", i.claims(claims{"aud": "other"})),
		"no audience":                 i.sign(jose.RS256, key, "one", i.claims(claims{"aud": nil})),
		"foreign issuer":              i.sign(jose.RS256, key, "one", i.claims(claims{"iss": "https://issuer.example.com.evil.com"})),
		"no issuer":                   i.sign(jose.RS256, key, "one", i.claims(claims{"iss": nil})),
		"no subject":                  i.sign(jose.RS256, key, "one", i.claims(claims{"sub": nil})),
		"alg none":                    unsigned(`{"alg":"none"}`, i.claims(nil), ""),
		"alg None":                    unsigned(`{"alg":"None"}`, i.claims(nil), ""),
		"alg none with a signature":   unsigned(`{"alg":"none","kid":"one"}`, i.claims(nil), parts[2]),
		"no alg":                      unsigned(`{"kid":"one"}`, i.claims(nil), parts[2]),
		"HS256 with the public key":   i.sign(jose.HS256, public, "one", i.claims(nil)),
		"HS256 with its bytes":        i.sign(jose.HS256, der, "one", i.claims(nil)),
		"HS256 with the modulus":      i.sign(jose.HS256, key.N.Bytes(), "one", i.claims(nil)),
		"an algorithm that is not":    i.sign(jose.RS512, key, "one", i.claims(nil)),
		"another key":                 i.sign(jose.RS256, stranger, "one", i.claims(nil)),
		"another key, not named":      i.sign(jose.RS256, stranger, "", i.claims(nil)),
		"the key of another name":     i.sign(jose.RS256, key, "two", i.claims(nil)),
		"without a signature":         parts[0] + "." + parts[1] + ".",
		"other claims":                parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://issuer.example.com","aud":"flowgen","sub":"root"}`)) + "." + parts[2],
		"an end that is cut":          good[:len(good)-4],
		"too long":                    i.sign(jose.RS256, key, "one", i.claims(claims{"x": strings.Repeat("x", 17<<10)})),
		"in the JSON form":            `{"x":"..","protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`,
		"with its own key in it":      unsigned(`{"alg":"RS256","jwk":{"kty":"RSA"}}`, i.claims(nil), parts[2]),
		"with an address of its keys": unsigned(`{"alg":"RS256","jku":"https://evil.example.com","kid":"x"}`, i.claims(nil), parts[2]),
	} {
		status, p := ask(http.MethodGet, token)
		i.wants(what, status, p, http.StatusUnauthorized)
		if token != "" && strings.Contains(p.Detail, token) {
			t.Errorf("%s: the answer has the token: %s", what, p.Detail)
		}
	}
}

// TestOPS3_KeysRotateAndOutliveTheIssuerForAnHour proves that tokens are accepted after the issuer
// has changed its keys, and for an hour while the issuer is unavailable.
func TestOPS3_KeysRotateAndOutliveTheIssuerForAnHour(t *testing.T) {
	i := newIssuer(t)
	first, second := i.rsaKey(), i.rsaKey()
	i.publish("first", first.Public())
	ask := i.serve(i.config())
	wants := func(what string, key *rsa.PrivateKey, id string, want int) {
		t.Helper()
		status, p := ask(http.MethodGet, i.sign(jose.RS256, key, id, i.claims(nil)))
		i.wants(what, status, p, want)
	}
	wants("the first key", first, "first", 200)
	wants("a key that is not there yet", second, "second", 401)
	i.change(func() { i.keys.Keys = nil })
	i.publish("second", second.Public())
	var before, after int
	i.change(func() { before = i.asked })
	for range 20 {
		wants("a new key at once", second, "second", 401)
	}
	if i.change(func() { after = i.asked }); after != before {
		t.Errorf("unknown keys have cost the issuer %d requests at once, want none", after-before)
	}
	i.pass(11 * time.Second)
	wants("a new key", second, "second", 200)
	wants("a key that was taken back", first, "first", 401)

	i.change(func() { i.away = true })
	i.pass(11 * time.Minute)
	wants("the issuer is away", second, "second", 200)
	i.pass(48 * time.Minute)
	wants("for less than an hour", second, "second", 200)
	i.pass(2 * time.Minute)
	wants("for more than an hour", second, "second", 503)
	i.change(func() { i.away = false })
	i.pass(11 * time.Second)
	wants("it is back", second, "second", 200)

	kept := i.keys
	i.change(func() { i.keys = jose.JSONWebKeySet{} })
	i.pass(11 * time.Minute)
	wants("it has no keys for a moment", second, "second", 200)
	i.change(func() { i.keys = kept })

	i.change(func() { i.away = true })
	ask = i.serve(i.config())
	wants("away from the beginning", second, "second", 503)
}

// TestOPS3_KeysForSomethingElseSignNoTokens proves that keys in a JWKS that are for other purposes
// do not sign tokens.
func TestOPS3_KeysForSomethingElseSignNoTokens(t *testing.T) {
	i := newIssuer(t)
	for id, change := range map[string]func(k *jose.JSONWebKey){
		"plain":      func(*jose.JSONWebKey) {},
		"use":        func(k *jose.JSONWebKey) { k.Use = "sig" },
		"algorithm":  func(k *jose.JSONWebKey) { k.Algorithm = "RS256" },
		"encryption": func(k *jose.JSONWebKey) { k.Use = "enc" },
		"another's":  func(k *jose.JSONWebKey) { k.Algorithm = "PS256" },
	} {
		key := i.rsaKey()
		public := jose.JSONWebKey{Key: key.Public(), KeyID: id}
		change(&public)
		i.change(func() { i.keys.Keys = []jose.JSONWebKey{public} })
		auth, err := jwtauth.New(i.config())
		if err != nil {
			t.Fatal(err)
		}
		token := i.sign(jose.RS256, key, id, i.claims(nil))
		_, err = auth.Authenticate(t.Context(), token)
		if good := id != "encryption" && id != "another's"; (err == nil) != good {
			t.Errorf("a key with %s: got %v", id, err)
		}
	}
}

func TestOPS3_ClaimsSayWhoItIs(t *testing.T) {
	i := newIssuer(t)
	key := i.rsaKey()
	i.publish("one", key.Public())
	for what, tt := range map[string]struct {
		change claims
		cfg    func(c *jwtauth.Config)
		want   admin.Principal
		fails  bool
	}{
		"the highest role":           {want: admin.Principal{Name: "ada", Role: admin.RoleOperator}},
		"one role, as text":          {change: claims{"roles": "admin"}, want: admin.Principal{Name: "ada", Role: admin.RoleAdmin}},
		"a role that is none":        {change: claims{"roles": []string{"root"}}, want: admin.Principal{Name: "ada"}},
		"no claim of roles":          {change: claims{"roles": nil}, want: admin.Principal{Name: "ada"}},
		"roles of another kind":      {change: claims{"roles": claims{"admin": true}}, want: admin.Principal{Name: "ada"}},
		"a claim within":             {change: claims{"realm": claims{"roles": []string{"payloads"}}}, cfg: func(c *jwtauth.Config) { c.RolesClaim = "realm.roles" }, want: admin.Principal{Name: "ada", Role: admin.RolePayloads}},
		"a claim with points":        {change: claims{"https://x.com/roles": "viewer"}, cfg: func(c *jwtauth.Config) { c.RolesClaim = "https://x.com/roles" }, want: admin.Principal{Name: "ada", Role: admin.RoleViewer}},
		"other names of roles":       {change: claims{"roles": []string{"oncall", "admin"}}, cfg: func(c *jwtauth.Config) { c.Roles = map[string]admin.Role{"oncall": admin.RoleOperator} }, want: admin.Principal{Name: "ada", Role: admin.RoleOperator}},
		"an owner":                   {cfg: func(c *jwtauth.Config) { c.OwnerClaim = "team" }, want: admin.Principal{Name: "ada", Role: admin.RoleOperator, Owner: "a"}},
		"an owner that is not asked": {change: claims{"owner": "b"}, want: admin.Principal{Name: "ada", Role: admin.RoleOperator}},
		"no owner":                   {change: claims{"team": nil}, cfg: func(c *jwtauth.Config) { c.OwnerClaim = "team" }, fails: true},
		"no owner, which the role may lack": {change: claims{"team": nil}, cfg: func(c *jwtauth.Config) {
			c.OwnerClaim, c.WithoutOwner = "team", []admin.Role{admin.RoleOperator}
		}, want: admin.Principal{Name: "ada", Role: admin.RoleOperator}},
		"an owner, which the role may lack": {cfg: func(c *jwtauth.Config) {
			c.OwnerClaim, c.WithoutOwner = "team", []admin.Role{admin.RoleOperator}
		}, want: admin.Principal{Name: "ada", Role: admin.RoleOperator, Owner: "a"}},
		"no owner, which another role may lack": {change: claims{"team": nil}, cfg: func(c *jwtauth.Config) {
			c.OwnerClaim, c.WithoutOwner = "team", []admin.Role{admin.RoleAdmin}
		}, fails: true},
		"no owner and no role": {change: claims{"team": nil, "roles": nil}, cfg: func(c *jwtauth.Config) {
			c.OwnerClaim, c.WithoutOwner = "team", admin.Roles()
		}, fails: true},
		"an empty owner, though the role may lack it": {change: claims{"team": ""}, cfg: func(c *jwtauth.Config) {
			c.OwnerClaim, c.WithoutOwner = "team", admin.Roles()
		}, fails: true},
		"an empty owner": {change: claims{"team": ""}, cfg: func(c *jwtauth.Config) { c.OwnerClaim = "team" }, fails: true},
		"owners":         {change: claims{"team": []string{"a", "b"}}, cfg: func(c *jwtauth.Config) { c.OwnerClaim = "team" }, fails: true},
	} {
		cfg := i.config()
		if tt.cfg != nil {
			tt.cfg(&cfg)
		}
		auth, err := jwtauth.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		got, err := auth.Authenticate(t.Context(), i.sign(jose.RS256, key, "one", i.claims(tt.change)))
		if got != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s: got %+v, %v; want %+v", what, got, err, tt.want)
		}
	}
}

func TestOPS3_ALowRoleIsForbidden(t *testing.T) {
	i := newIssuer(t)
	key := i.rsaKey()
	i.publish("one", key.Public())
	ask := i.serve(i.config())
	for role, want := range map[string][2]int{"operator": {200, 201}, "viewer": {200, 403}, "root": {403, 403}} {
		token := i.sign(jose.RS256, key, "one", i.claims(claims{"roles": role}))
		for n, method := range []string{http.MethodGet, http.MethodPost} {
			status, p := ask(method, token)
			i.wants(method+" as "+role, status, p, want[n])
		}
	}
}

// elsewhere is an authenticator that accepts one credential.
type elsewhere struct{}

func (elsewhere) Authenticate(_ context.Context, credential string) (admin.Principal, error) {
	if credential == "fg_bob" {
		return admin.Principal{Name: "bob", Role: admin.RoleViewer}, nil
	}
	return admin.Principal{}, &admin.UnauthenticatedError{What: "the token is not known"}
}

func TestOPS3_TokensBesideJWTs(t *testing.T) {
	i := newIssuer(t)
	key := i.rsaKey()
	i.publish("one", key.Public())
	cfg := i.config()
	cfg.Else = elsewhere{}
	ask := i.serve(cfg)
	for token, want := range map[string]int{"fg_bob": 200, "fg_eve": 401, i.sign(jose.RS256, key, "one", i.claims(nil)): 200, "a.b.c": 401} {
		status, p := ask(http.MethodGet, token)
		i.wants(token, status, p, want)
	}
}

func TestOPS3_ConfigurationsThatAcceptTooMuchAreRefused(t *testing.T) {
	i := newIssuer(t)
	for what, change := range map[string]func(c *jwtauth.Config){
		"none":           func(c *jwtauth.Config) { c.Algorithms = []string{"none"} },
		"HS256":          func(c *jwtauth.Config) { c.Algorithms = []string{"RS256", "HS256"} },
		"no issuer":      func(c *jwtauth.Config) { c.Issuer = "" },
		"no audience":    func(c *jwtauth.Config) { c.Audience = "" },
		"no keys":        func(c *jwtauth.Config) { c.JWKS = "" },
		"keys by http":   func(c *jwtauth.Config) { c.JWKS = "http://issuer.example.com/jwks" },
		"keys of a file": func(c *jwtauth.Config) { c.JWKS = "file:///etc/keys" },
		"unknown role":   func(c *jwtauth.Config) { c.Roles = map[string]admin.Role{"x": "root"} },
	} {
		cfg := i.config()
		change(&cfg)
		if _, err := jwtauth.New(cfg); err == nil || admin.ProblemOf(err).Code != admin.CodeInput {
			t.Errorf("%s: got %v, want an input problem", what, err)
		}
	}
}
