package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// issuer represents a server that issues tokens.
type issuer struct {
	name string
	key  *ecdsa.PrivateKey
}

func newIssuer(name string) (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return &issuer{name: name, key: key}, err
}

// ServeHTTP responds with the public key, as a JSON Web Key Set.
func (i *issuer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "1", Use: "sig", Algorithm: string(jose.ES256)}}})
}

// token returns a token for a person with a role.
func (i *issuer) token(name, role string, expires time.Time) (string, error) {
	claims, err := json.Marshal(map[string]any{
		"iss": i.name, "aud": "flowgen", "sub": name, "iat": time.Now().Unix(), "exp": expires.Unix(),
		"realm_access": map[string]any{"roles": []string{role}},
	})
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "1"}}, nil)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}
