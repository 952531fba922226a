"""Security keys in software: what a browser sends for them."""

import hashlib
import json
import secrets
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2.cose import ES256
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import (
    Aaguid,
    AttestationObject,
    AttestedCredentialData,
    AuthenticatorData,
    CollectedClientData,
)

HOST = "testserver"
FLAG = AuthenticatorData.FLAG


class SecurityKey:
    """A key that its user touches at once."""

    def __init__(self) -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        self._id = secrets.token_bytes(16)

    def register(self, challenge: str) -> dict[str, Any]:
        """The answer to a page that adds a key."""
        public = ES256.from_cryptography_key(self._private.public_key())
        attested = AttestedCredentialData.create(Aaguid.NONE, self._id, public)
        attestation = AttestationObject.create("none", _data(FLAG.UP | FLAG.AT, attested), {})
        return self._credential(_seen("create", challenge), attestationObject=attestation)

    def sign(self, challenge: str) -> dict[str, Any]:
        """The answer to a page that asks for the key."""
        seen, data = _seen("get", challenge), _data(FLAG.UP)
        signature = self._private.sign(data + seen.hash, ec.ECDSA(hashes.SHA256()))
        return self._credential(seen, authenticatorData=data, signature=signature)

    def _credential(self, seen: CollectedClientData, **response: bytes) -> dict[str, Any]:
        answered = {"clientDataJSON": seen, **response}
        return {
            "id": websafe_encode(self._id),
            "rawId": websafe_encode(self._id),
            "type": "public-key",
            "response": {name: websafe_encode(value) for name, value in answered.items()},
            "clientExtensionResults": {},
        }


def challenge_of(page: str) -> str:
    """The challenge on a page that adds a key or asks for one."""
    options = json.loads(
        page.partition('id="js_data" type="application/json">')[2].partition("<")[0]
    )
    (asked,) = options.values()
    challenge: str = asked["publicKey"]["challenge"]
    return challenge


def _seen(kind: str, challenge: str) -> CollectedClientData:
    return CollectedClientData.create(
        f"webauthn.{kind}", websafe_decode(challenge), f"https://{HOST}"
    )


def _data(
    flags: AuthenticatorData.FLAG, attested: AttestedCredentialData | bytes = b""
) -> AuthenticatorData:
    return AuthenticatorData.create(hashlib.sha256(HOST.encode()).digest(), flags, 0, attested)
