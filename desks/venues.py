"""The venues at which a desk can be connected: a name each, kept by hand, in alphabetical order.

A venue that leaves the list stays with the desks that are connected to it.
"""

VENUES = (
    "Alpaca",
    "Binance",
    "Bitfinex",
    "Bitget",
    "Bitstamp",
    "Bitvavo",
    "Bybit",
    "Coinbase Advanced",
    "Crypto.com Exchange",
    "Deribit",
    "dYdX",
    "Gate",
    "Gemini",
    "HTX",
    "Hyperliquid",
    "Interactive Brokers",
    "Kraken",
    "KuCoin",
    "MEXC",
    "OKX",
)
