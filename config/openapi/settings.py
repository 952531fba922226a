"""The settings of the library that makes the OpenAPI document."""

from typing import Any

from desks.ids import SIGNAL_ID, SUBSCRIPTION_ID, USER_ID


def spectacular_settings(base_url: str) -> dict[str, Any]:
    """The value of ``SPECTACULAR_SETTINGS``."""
    return {
        "TITLE": "Signal Intermediary Service",
        "VERSION": "1",
        "DESCRIPTION": (
            "Users own desks, an engine pulls them and deploys elected signals back, and "
            "automations push signals of their own. **All of it is paper.** A signal repeats "
            "the pair and the direction that the customer has elected: the service never "
            "infers one.\n\n"
            "Large answers to GET are compressed for clients that send `Accept-Encoding: "
            "gzip`."
        ),
        "OAS_VERSION": "3.1.0",
        "SERVERS": [{"url": base_url}],
        "DEFAULT_GENERATOR_CLASS": "config.openapi.generator.Generator",
        "PREPROCESSING_HOOKS": ["config.openapi.generator.in_order"],
        "POSTPROCESSING_HOOKS": [],
        "PATH_CONVERTER_OVERRIDES": {
            "userId": {**USER_ID, "description": "The desk."},
            "signalId": {**SIGNAL_ID, "description": "The signal."},
            "subscriptionId": {**SUBSCRIPTION_ID, "description": "The subscription."},
        },
        "CAMELIZE_NAMES": True,  # {userId} in paths, as the contract writes them
        "SORT_OPERATIONS": False,
        "SORT_OPERATION_PARAMETERS": False,
        "ENFORCE_NON_BLANK_FIELDS": True,
        "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    }
