# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes a plan of splices, with the bytes of their patches, of the points where instruments are wanted. Nothing here
does input or output: the modules read images and compute bytes.

``points`` finds addresses, ``segments`` cuts blocks into stretches that can be moved as a whole, ``tactics`` holds the
ways to lead control to a patch, ``planner`` plans a function, ``emit`` and ``relocate`` make a patch, ``instrument``
makes the code that a probe runs, and ``policy`` says what a kind of target allows. ``template`` and ``template_build``
keep the plans of a whole image in a form that fits any address.
"""
