# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where D's probes come from: a provider a file. Each makes probes of the descriptions that mean it."""
